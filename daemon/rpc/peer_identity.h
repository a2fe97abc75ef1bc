// Who is at the other end of a unix socket, as the kernel says: never as the peer says.
//
// Threads: any.

#ifndef KCACHE_DAEMON_RPC_PEER_IDENTITY_H_
#define KCACHE_DAEMON_RPC_PEER_IDENTITY_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "daemon/core/service.h"
#include "daemon/ops/unique_fd.h"

namespace kcache::rpc {

struct PeerIdentity {
  core::Peer peer;
  // Readable when the process has exited. Invalid when the process is unknown (pid 0: another pid
  // namespace), or has exited already.
  ops::UniqueFd pidfd;
};

// SO_PEERCRED of a connected socket; the pidfd from SO_PEERPIDFD, or on older kernels from
// pidfd_open, which counts only if the connection is still open afterwards: then its process had
// not exited, so the pid is still its own.
absl::StatusOr<PeerIdentity> IdentifyPeer(int socket);

// The container that a process's cgroups (the text of /proc/PID/cgroup) tell: the 64 hexadecimal
// digits that Docker, Podman, containerd and CRI-O put into the path, or the name that LXC and
// systemd-nspawn put there. Empty: none.
std::string ContainerOf(std::string_view cgroups);

}  // namespace kcache::rpc

#endif  // KCACHE_DAEMON_RPC_PEER_IDENTITY_H_
