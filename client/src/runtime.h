// What every part of one client runs on, shared by all that may outlive the client itself (kernels,
// buffers, events on their way).

#ifndef KCACHE_CLIENT_RUNTIME_H_
#define KCACHE_CLIENT_RUNTIME_H_

#include <memory>

#include "client/src/scheduling.h"
#include "client/src/serial_executor.h"
#include "client/src/transport.h"

namespace kcache::internal {

struct Runtime {
  std::shared_ptr<SerialExecutor> executor = std::make_shared<SerialExecutor>();
  std::unique_ptr<Timers> timers;
  std::unique_ptr<TaskRunner> listeners;
  std::unique_ptr<Transport> transport;
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_RUNTIME_H_
