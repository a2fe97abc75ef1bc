// The core's most frequent failures, worded the same way everywhere.

#ifndef KCACHE_DAEMON_CORE_ERRORS_H_
#define KCACHE_DAEMON_CORE_ERRORS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::core {

inline absl::Status BadRequest(std::string_view message) {
  return MakeError(v1::BAD_REQUEST, message);
}

// "<what>; the limit max_x is N"
inline absl::Status LimitExceeded(std::string_view limit, uint64_t value, std::string_view what) {
  return MakeError(v1::LIMIT_EXCEEDED,
                   absl::StrCat(AbslView(what), "; the limit ", AbslView(limit), " is ", value),
                   {{"limit", std::string(limit)}, {"value", std::to_string(value)}});
}

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_ERRORS_H_
