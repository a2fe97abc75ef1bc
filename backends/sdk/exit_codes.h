// How a backend program ends. The daemon reads these; anything else is a crash.

#ifndef KCACHE_BACKENDS_SDK_EXIT_CODES_H_
#define KCACHE_BACKENDS_SDK_EXIT_CODES_H_

namespace kcache::backend {

inline constexpr int kExitOk = 0;            // torn down, or probed
inline constexpr int kExitFailure = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitUnavailable = 69;  // no compiler or driver
inline constexpr int kExitContextLost = 70;  // a kernel's fault or a dead driver
inline constexpr int kExitOrphaned = 71;     // the daemon has gone

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_EXIT_CODES_H_
