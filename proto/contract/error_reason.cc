#include "contract/error_reason.h"

#include <optional>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "contract/strings.h"

namespace kcache {
namespace {

// The payload is a v1::Error of which only reason and details are set.
constexpr char kPayloadUrl[] = "type.googleapis.com/kcache.v1.Error";

v1::Error PayloadOf(const absl::Status& status) {
  v1::Error payload;
  const auto cord = status.GetPayload(kPayloadUrl);
  if (cord.has_value() && !payload.ParseFromString(std::string(*cord))) payload.Clear();
  return payload;
}

void SetPayload(absl::Status* status, const v1::Error& payload) {
  if (payload.reason() == v1::ERROR_REASON_UNSPECIFIED && payload.details().empty()) return;
  status->SetPayload(kPayloadUrl, absl::Cord(payload.SerializeAsString()));
}

bool IsCanonical(int code) { return code >= 0 && code <= 16; }

}  // namespace

absl::StatusCode CanonicalCode(v1::ErrorReason reason) {
  switch (reason) {
    case v1::BAD_REQUEST:
    case v1::INVALID_UTF8:
    case v1::INVALID_ARGUMENTS:
    case v1::INVALID_LAUNCH:
    case v1::COMPILE_FAILED:
      return absl::StatusCode::kInvalidArgument;
    case v1::BUFFER_OUT_OF_RANGE:
    case v1::UNKNOWN_QUEUE:
      return absl::StatusCode::kOutOfRange;
    case v1::UNKNOWN_DEVICE:
    case v1::UNKNOWN_ENTRY:
    case v1::UNKNOWN_BUFFER:
    case v1::LEASE_UNKNOWN:
    case v1::SESSION_UNKNOWN:
    case v1::UNKNOWN_OPERATION:
      return absl::StatusCode::kNotFound;
    case v1::UNSUPPORTED_PROTOCOL_VERSION:
    case v1::UNSUPPORTED_LANGUAGE:
    case v1::UNSUPPORTED_ARCHITECTURE:
      return absl::StatusCode::kUnimplemented;
    case v1::DIGEST_MISMATCH:
      return absl::StatusCode::kDataLoss;
    case v1::NEED_SOURCE:
    case v1::COMPILE_REFUSED:
    case v1::DEVICE_DOWN:
    case v1::CONTEXT_ON_HOLD:
    case v1::LEASE_REVOKED:
    case v1::REVOKED_UNACKED:
    case v1::ID_RETIRED:
    case v1::SESSION_EXPIRED:
    case v1::WRONG_INSTANCE:
    case v1::FORKED:
    case v1::BLOCKING_IN_LISTENER:
      return absl::StatusCode::kFailedPrecondition;
    case v1::COMPILE_TIMEOUT:
    case v1::DEADLINE_EXCEEDED:
      return absl::StatusCode::kDeadlineExceeded;
    case v1::COMPILE_OUT_OF_MEMORY:
    case v1::LIMIT_EXCEEDED:
    case v1::OUT_OF_DEVICE_MEMORY:
      return absl::StatusCode::kResourceExhausted;
    case v1::DEVICE_DRAINING:
    case v1::BACKEND_UNAVAILABLE:
    case v1::NOT_READY:
    case v1::SHUTTING_DOWN:
    case v1::DAEMON_UNREACHABLE:
    case v1::CONNECTION_LOST:
      return absl::StatusCode::kUnavailable;
    case v1::DEVICE_DESTROYED:
    case v1::DEVICE_LOST:
    case v1::CLEARED:
    case v1::KERNEL_FAULT:
    case v1::INTERRUPTED:
      return absl::StatusCode::kAborted;
    case v1::LEASE_FOREIGN:
    case v1::PERMISSION_DENIED:
      return absl::StatusCode::kPermissionDenied;
    case v1::CANCELLED:
      return absl::StatusCode::kCancelled;
    case v1::COMPILE_CRASHED:
    case v1::STUCK:
    case v1::INTERNAL:
      return absl::StatusCode::kInternal;
    default:
      return absl::StatusCode::kUnknown;
  }
}

absl::Status MakeError(absl::StatusCode code, v1::ErrorReason reason, std::string_view message,
                       const ErrorDetails& details) {
  if (code == absl::StatusCode::kOk) code = absl::StatusCode::kInternal;
  absl::Status status(code, AbslView(message));
  v1::Error payload;
  payload.set_reason(reason);
  for (const auto& [key, value] : details) {
    (*payload.mutable_details())[ToValidUtf8(key)] = ToValidUtf8(value);
  }
  SetPayload(&status, payload);
  return status;
}

absl::Status MakeError(v1::ErrorReason reason, std::string_view message,
                       const ErrorDetails& details) {
  return MakeError(CanonicalCode(reason), reason, message, details);
}

v1::ErrorReason ReasonOf(const absl::Status& status) { return PayloadOf(status).reason(); }

ErrorDetails DetailsOf(const absl::Status& status) {
  const v1::Error payload = PayloadOf(status);
  return {payload.details().begin(), payload.details().end()};
}

std::string ReasonName(v1::ErrorReason reason) {
  const std::string& name = v1::ErrorReason_Name(reason);
  return name.empty() ? absl::StrCat("REASON_", static_cast<int>(reason)) : name;
}

absl::Status Annotate(const absl::Status& status, std::string_view context) {
  if (status.ok()) return status;
  absl::Status annotated(status.code(), absl::StrCat(AbslView(context), ": ", status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    annotated.SetPayload(url, payload);
  });
  return annotated;
}

v1::Error ToProto(const absl::Status& status) {
  v1::Error error;
  if (status.ok()) return error;
  error = PayloadOf(status);
  error.set_code(static_cast<int>(status.raw_code()));
  error.set_message(ToValidUtf8(StdView(status.message())));
  return error;
}

absl::Status FromProto(const v1::Error& error) {
  if (error.code() == 0 && error.reason() == v1::ERROR_REASON_UNSPECIFIED) {
    return absl::OkStatus();
  }
  absl::StatusCode code = CanonicalCode(error.reason());
  if (error.code() != 0) {
    code = IsCanonical(error.code()) ? static_cast<absl::StatusCode>(error.code())
                                     : absl::StatusCode::kUnknown;
  }
  absl::Status status(code, error.message());
  v1::Error payload;
  payload.set_reason(error.reason());
  *payload.mutable_details() = error.details();
  SetPayload(&status, payload);
  return status;
}

}  // namespace kcache
