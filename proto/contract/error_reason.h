// Typed failures: an absl::Status that carries a v1::ErrorReason and details for programs.
//
// The canonical code says how a caller that does not know the reason should react; the reason says
// what happened; the message says what, which value and which limit, for people; the details say
// the same for programs ("limit" -> "max_leases_per_session"). Reason and details travel as one
// payload of the status, and as v1::Error on the wire. To and from gRPC: contract/grpc_status.h.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_CONTRACT_ERROR_REASON_H_
#define KCACHE_CONTRACT_ERROR_REASON_H_

#include <map>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "kcache/v1/types.pb.h"

namespace kcache {

using ErrorDetails = std::map<std::string, std::string>;

// The code that goes with `reason` unless the caller has a better one; kUnknown for reasons this
// build does not know.
absl::StatusCode CanonicalCode(v1::ErrorReason reason);

// A failure. `code` must not be kOk; one that is becomes kInternal, so that a mistake in an error
// path cannot turn a failure into success.
absl::Status MakeError(absl::StatusCode code, v1::ErrorReason reason, std::string_view message,
                       const ErrorDetails& details = {});

// The same with CanonicalCode(reason).
absl::Status MakeError(v1::ErrorReason reason, std::string_view message,
                       const ErrorDetails& details = {});

// ERROR_REASON_UNSPECIFIED for OK and for a status that carries none.
v1::ErrorReason ReasonOf(const absl::Status& status);
ErrorDetails DetailsOf(const absl::Status& status);

// "REASON_NAME", or "REASON_<number>" for a reason of a newer peer.
std::string ReasonName(v1::ErrorReason reason);

// The same failure, its message prefixed with "`context`: "; code, reason and details are kept.
// OK stays OK.
absl::Status Annotate(const absl::Status& status, std::string_view context);

// OK becomes the empty Error, and the other way round. Bytes that are not UTF-8 become U+FFFD. An
// Error with a reason but no code gets CanonicalCode; a code outside the canonical range, kUnknown.
// Reasons that this build does not know are kept as they are.
v1::Error ToProto(const absl::Status& status);
absl::Status FromProto(const v1::Error& error);

}  // namespace kcache

#endif  // KCACHE_CONTRACT_ERROR_REASON_H_
