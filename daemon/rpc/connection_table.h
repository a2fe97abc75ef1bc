// Which peer is behind which connection, and which of their processes still live.
//
// gRPC knows a connection that we accepted as "fd:N". N is the number under which gRPC got it, so the
// number must not come back while anybody may still ask: numbers are handed out in ascending order
// from a range of their own, which takes tens of thousands of connections to go round.
//
// A connection is watched through a duplicate of its descriptor; when the peer goes, the entry goes. A
// process is watched through one pidfd until it exits, longer than its connections: a process closes
// its sockets before it has exited.
//
// Threads: Add on the loop's thread; Find and counts from any. on_process_exit runs on the loop's thread.

#ifndef KCACHE_DAEMON_RPC_CONNECTION_TABLE_H_
#define KCACHE_DAEMON_RPC_CONNECTION_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string_view>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "contract/mutex.h"
#include "daemon/core/service.h"
#include "daemon/ops/epoll_loop.h"
#include "daemon/rpc/peer_identity.h"

namespace kcache::rpc {

class ConnectionTable {
 public:
  struct Limits {
    uint32_t connections = 16384;
    uint32_t connections_per_uid = 8192;
  };

  // `loop` outlives the table.
  ConnectionTable(ops::EpollLoop* loop, Limits limits,
                  std::function<void(const core::Peer&)> on_process_exit);
  // Nobody adds any more. Not on the loop's thread.
  ~ConnectionTable();

  // Takes a connected socket and answers the number under which gRPC is to get it; that descriptor
  // is then gRPC's. RESOURCE_EXHAUSTED names the limit that is reached.
  absl::StatusOr<int> Add(ops::UniqueFd socket);

  // `grpc_peer` as ServerContext::peer() gives it. PERMISSION_DENIED for a connection that was not
  // accepted here, or that has ended.
  absl::StatusOr<core::Peer> Find(std::string_view grpc_peer) const;

  size_t size() const;
  size_t watched_processes() const;

 private:
  struct Connection {
    core::Peer peer;
    uint64_t serial = 0;
    ops::UniqueFd duplicate;
    ops::EpollLoop::WatchId watch = 0;
  };
  struct Process {
    core::Peer peer;
    ops::UniqueFd pidfd;
    ops::EpollLoop::WatchId watch = 0;
    uint64_t serial = 0;
  };

  absl::StatusOr<int> FreshNumber(int fd);
  void WatchProcess(PeerIdentity identity);
  void OnClosed(int number, uint64_t serial);
  void OnProcessExit(pid_t pid, uint64_t serial);

  ops::EpollLoop* const loop_;
  const Limits limits_;
  const std::function<void(const core::Peer&)> on_process_exit_;
  int first_number_ = 0;
  int last_number_ = 0;
  int next_number_ = 0;  // the loop thread's
  uint64_t next_serial_ = 1;

  mutable Mutex mutex_;
  std::unordered_map<int, Connection> connections_ ABSL_GUARDED_BY(mutex_);
  std::map<uid_t, uint32_t> per_uid_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<pid_t, Process> processes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::rpc

#endif  // KCACHE_DAEMON_RPC_CONNECTION_TABLE_H_
