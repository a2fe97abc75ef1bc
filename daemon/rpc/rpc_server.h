// Both sockets and the gRPC servers behind them: clients on one, operators on the other.
//
// Threads: Start and Shutdown on one thread.

#ifndef KCACHE_DAEMON_RPC_RPC_SERVER_H_
#define KCACHE_DAEMON_RPC_RPC_SERVER_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/core/dependencies.h"
#include "daemon/core/service.h"
#include "daemon/ops/epoll_loop.h"
#include "daemon/ops/event_log.h"
#include "daemon/rpc/admin_service.h"
#include "daemon/rpc/connection_table.h"
#include "daemon/rpc/listening_socket.h"

namespace kcache::rpc {

struct RpcOptions {
  SocketOptions client;
  SocketOptions admin;
  uint64_t max_message_bytes = 4u << 20;
  uint64_t max_source_bytes = 16u << 20;
  ConnectionTable::Limits connections;
  absl::Duration keepalive = absl::InfiniteDuration();
};

class RpcServer {
 public:
  // Everything given outlives the server.
  static absl::StatusOr<std::unique_ptr<RpcServer>> Start(const RpcOptions& options,
                                                          core::Service* service,
                                                          core::Executor* executor,
                                                          ops::EpollLoop* loop,
                                                          ops::EventLog* events,
                                                          AdminService::Hooks hooks);
  virtual ~RpcServer() = default;

  // Accepts nobody any more; streams that are open go on.
  virtual void StopAccepting() = 0;
  // Ends every stream, within `deadline`.
  virtual void Shutdown(absl::Duration deadline) = 0;
  virtual uint64_t connections() const = 0;
};

}  // namespace kcache::rpc

#endif  // KCACHE_DAEMON_RPC_RPC_SERVER_H_
