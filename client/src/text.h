// Checks on text that goes over the wire: protobuf would only say that a message is malformed.
//
// Threads: pure functions.

#ifndef KCACHE_CLIENT_TEXT_H_
#define KCACHE_CLIENT_TEXT_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::internal {

// INVALID_UTF8, or LIMIT_EXCEEDED naming the length and the limit in bytes.
inline absl::Status CheckText(const char* what, const std::string& text, size_t limit) {
  if (!IsValidUtf8(text)) {
    return MakeError(v1::INVALID_UTF8, absl::StrCat(what, " is not UTF-8: ", Quoted(text)));
  }
  if (text.size() <= limit) return absl::OkStatus();
  return MakeError(v1::LIMIT_EXCEEDED,
                   absl::StrCat(what, " has ", text.size(), " bytes; the limit is ", limit));
}

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_TEXT_H_
