// The listening socket on which clients reach one device host. kcached creates it, so that its owner
// and mode are right before anybody can connect, and the host inherits it.
//
// Threads: MakeExecutionSocket blocks for the file system: not on the executor.

#ifndef KCACHE_DAEMON_WORKERS_EXECUTION_SOCKET_H_
#define KCACHE_DAEMON_WORKERS_EXECUTION_SOCKET_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "daemon/ops/unique_fd.h"

namespace kcache::workers {

struct ExecutionSocket {
  std::string path;
  ops::UniqueFd listening;
};

// `open_to_all`: a domain of several users; who gets in is decided by the execution token alone.
// Else the socket belongs to `uid` with mode 0600; without the right to give it away it stays ours,
// with mode 0666, and the host's check of the peer's uid (and its token) decides.
absl::StatusOr<ExecutionSocket> MakeExecutionSocket(const std::string& directory, uid_t uid,
                                                    bool open_to_all);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_EXECUTION_SOCKET_H_
