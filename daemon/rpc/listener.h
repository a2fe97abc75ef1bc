// Accepts connections and hands them to gRPC, each with a known peer.
//
// gRPC's own listeners do not tell who connects. So the sockets are ours: accept, read the peer's
// credentials, enter the connection in the table, and only then let gRPC read from it.
//
// Threads: Create, Stop at start-up and shutdown; accepting on the loop's thread.

#ifndef KCACHE_DAEMON_RPC_LISTENER_H_
#define KCACHE_DAEMON_RPC_LISTENER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/core/dependencies.h"
#include "daemon/ops/epoll_loop.h"
#include "daemon/rpc/connection_table.h"

namespace kcache::rpc {

class Listener {
 public:
  // Takes over a connected descriptor.
  using Adopt = std::function<void(int fd)>;

  // All pointers outlive the listener; `listening` stays the caller's.
  static absl::StatusOr<std::unique_ptr<Listener>> Create(int listening, std::string path,
                                                          ops::EpollLoop* loop,
                                                          ConnectionTable* table,
                                                          core::EventSink* events, Adopt adopt);
  ~Listener();
  // Accepts nothing more.
  void Stop();

 private:
  Listener(int listening, std::string path, ops::EpollLoop* loop, ConnectionTable* table,
           core::EventSink* events, Adopt adopt);
  void OnReadable();
  void OnOutOfDescriptors();
  void Refused(const absl::Status& why);

  const int listening_;
  const std::string path_;
  ops::EpollLoop* const loop_;
  ConnectionTable* const table_;
  core::EventSink* const events_;
  const Adopt adopt_;
  ops::EpollLoop::WatchId watch_ = 0;
  ops::UniqueFd reserve_;  // given up to accept, and close, when descriptors are used up
  uint64_t refused_ = 0;
};

}  // namespace kcache::rpc

#endif  // KCACHE_DAEMON_RPC_LISTENER_H_
