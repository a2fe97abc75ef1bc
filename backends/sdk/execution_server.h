// Execution over gRPC: accepts clients on the listening socket, and turns streams into sessions.
//
// Who is at the other end is what the kernel says (SO_PEERCRED at accept). gRPC names such a
// connection by its file descriptor, and descriptors are reused, so each accepted one is moved to a
// number that has not been used before.
//
// Threads: one that accepts; gRPC's own for the streams.

#ifndef KCACHE_BACKENDS_SDK_EXECUTION_SERVER_H_
#define KCACHE_BACKENDS_SDK_EXECUTION_SERVER_H_

#include <memory>

#include "backends/sdk/host.h"

namespace kcache::backend {

class ExecutionServer {
 public:
  // Takes over `listening_fd`. Serves until the process ends.
  static std::unique_ptr<ExecutionServer> Start(Host* host, int listening_fd);
  virtual ~ExecutionServer() = default;
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_EXECUTION_SERVER_H_
