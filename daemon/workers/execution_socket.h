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

// Everybody may connect: the host refuses strangers by the peer's uid and by token, and tells. With the
// kernel's refusal (mode 0600) nobody would ever learn that a stranger had tried.
absl::StatusOr<ExecutionSocket> MakeExecutionSocket(const std::string& directory);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_EXECUTION_SOCKET_H_
