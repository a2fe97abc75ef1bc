#include "kcache/error.h"

#include "contract/error_reason.h"

namespace kcache {
namespace {

// The public numbers are the wire's.
static_assert(static_cast<int>(Reason::kBadRequest) == v1::BAD_REQUEST);
static_assert(static_cast<int>(Reason::kUnknownQueue) == v1::UNKNOWN_QUEUE);
static_assert(static_cast<int>(Reason::kNeedSource) == v1::NEED_SOURCE);
static_assert(static_cast<int>(Reason::kCompileRefused) == v1::COMPILE_REFUSED);
static_assert(static_cast<int>(Reason::kDeviceDraining) == v1::DEVICE_DRAINING);
static_assert(static_cast<int>(Reason::kLeaseRevoked) == v1::LEASE_REVOKED);
static_assert(static_cast<int>(Reason::kStuck) == v1::STUCK);
static_assert(static_cast<int>(Reason::kSessionUnknown) == v1::SESSION_UNKNOWN);
static_assert(static_cast<int>(Reason::kShuttingDown) == v1::SHUTTING_DOWN);
static_assert(static_cast<int>(Reason::kDaemonUnreachable) == v1::DAEMON_UNREACHABLE);
static_assert(static_cast<int>(Reason::kConnectionLost) == v1::CONNECTION_LOST);
static_assert(static_cast<int>(Reason::kInternal) == v1::INTERNAL);

}  // namespace

Reason FailureReason(const absl::Status& status) { return static_cast<Reason>(ReasonOf(status)); }

std::string_view ReasonName(Reason reason) {
  const auto* value = v1::ErrorReason_descriptor()->FindValueByNumber(static_cast<int>(reason));
  if (value == nullptr || reason == Reason::kUnspecified) return "UNSPECIFIED";
  return value->name();
}

std::optional<std::string> FailureDetail(const absl::Status& status, std::string_view name) {
  const ErrorDetails details = DetailsOf(status);
  const auto detail = details.find(std::string(name));
  if (detail == details.end()) return std::nullopt;
  return detail->second;
}

}  // namespace kcache
