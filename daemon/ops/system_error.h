// A failed system call as a status: "while creating /run/kcached: Permission denied".
//
// Threads: any.

#ifndef KCACHE_DAEMON_OPS_SYSTEM_ERROR_H_
#define KCACHE_DAEMON_OPS_SYSTEM_ERROR_H_

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "contract/strings.h"

namespace kcache::ops {

// `number` is an errno value; `doing` names the call's purpose and its object.
inline absl::Status SystemError(int number, std::string_view doing) {
  return absl::Status(absl::ErrnoToStatusCode(number),
                      absl::StrCat("while ", AbslView(doing), ": ",
                                   std::generic_category().message(number)));
}

inline std::string ErrnoText(int number) { return std::generic_category().message(number); }

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_SYSTEM_ERROR_H_
