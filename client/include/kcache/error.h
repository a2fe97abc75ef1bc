// The typed reasons behind a kcache failure.
//
// Every function of the library answers absl::Status. Its code says how a caller who knows nothing
// of kcache should react; the reason below says exactly what happened, and the message names what,
// which value and which limit.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_ERROR_H_
#define KCACHE_ERROR_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kcache {

// One value per kind of failure. The numbers are those of the wire and never change.
enum class Reason : int {
  kUnspecified = 0,  // not a kcache failure, or from a newer daemon

  // What the caller sent is not acceptable.
  kBadRequest = 1,
  kUnsupportedProtocolVersion = 2,
  kInvalidUtf8 = 3,
  kUnknownDevice = 4,  // the message lists those that exist
  kUnsupportedLanguage = 5,
  kUnsupportedArchitecture = 6,
  kUnknownEntry = 7,      // the message lists those that exist
  kInvalidArguments = 8,  // kernel arguments: count, kind or size
  kInvalidLaunch = 9,     // grid or local size: zero, not divisible, beyond a limit
  kBufferOutOfRange = 10,
  kUnknownBuffer = 11,
  kDigestMismatch = 12,
  kUnknownQueue = 13,

  // Compiling.
  kNeedSource = 20,
  kCompileFailed = 21,  // the message is the compiler's log
  kCompileCrashed = 22,
  kCompileTimeout = 23,
  kCompileOutOfMemory = 24,
  kCompileRefused = 25,

  // Devices, contexts, leases.
  kDeviceDraining = 40,
  kDeviceDestroyed = 41,
  kDeviceDown = 42,
  kDeviceLost = 43,
  kContextOnHold = 44,
  kBackendUnavailable = 45,
  kNotReady = 46,
  kLeaseRevoked = 47,  // acquire the kernel again
  kLeaseUnknown = 48,
  kLeaseForeign = 49,
  kRevokedUnacked = 50,
  kCleared = 51,
  kIdRetired = 52,
  kKernelFault = 53,
  kStuck = 54,

  // Sessions and operations.
  kSessionUnknown = 60,
  kSessionExpired = 61,
  kWrongInstance = 62,
  kInterrupted = 63,
  kUnknownOperation = 64,
  kPermissionDenied = 65,
  kLimitExceeded = 66,
  kOutOfDeviceMemory = 67,
  kCancelled = 68,
  kDeadlineExceeded = 69,
  kShuttingDown = 70,

  // Raised by this library.
  kDaemonUnreachable = 80,
  kForked = 81,              // a forked child used its parent's client
  kBlockingInListener = 82,  // a blocking call inside a listener or a use scope
  kConnectionLost = 83,

  kInternal = 99,
};

// The reason that `status` carries; kUnspecified for OK and for a status that carries none.
Reason FailureReason(const absl::Status& status);

// "LEASE_REVOKED". "UNSPECIFIED" for a number this library does not know.
std::string_view ReasonName(Reason reason);

// A machine-readable detail of the failure, by name ("limit" -> "max_leases_per_session").
std::optional<std::string> FailureDetail(const absl::Status& status, std::string_view name);

}  // namespace kcache

#endif  // KCACHE_ERROR_H_
