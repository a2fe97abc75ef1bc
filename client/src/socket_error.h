// Why a unix socket cannot be connected to, in words an operator can act on.
//
// Threads: any.

#ifndef KCACHE_CLIENT_SOCKET_ERROR_H_
#define KCACHE_CLIENT_SOCKET_ERROR_H_

#include <string>

#include "absl/status/status.h"

namespace kcache::internal {

// DAEMON_UNREACHABLE naming the socket and the cause. Tries to connect once to learn it;
// `otherwise` is the cause when that works.
absl::Status WhyUnreachable(const std::string& socket, const std::string& otherwise);

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_SOCKET_ERROR_H_
