// kcachectl's exit codes: they tell the truth, so that scripts can rely on them.

#ifndef KCACHE_CLIENT_CTL_EXIT_CODE_H_
#define KCACHE_CLIENT_CTL_EXIT_CODE_H_

#include "absl/status/status.h"
#include "contract/error_reason.h"

namespace kcache::ctl {

enum ExitCode : int {
  kDone = 0,
  kFailed = 1,
  kUsage = 2,
  kUnreachable = 3,
  kDoneWithFailures = 4,
};

inline ExitCode ExitCodeOf(const absl::Status& status) {
  if (status.ok()) return kDone;
  return ReasonOf(status) == v1::DAEMON_UNREACHABLE ? kUnreachable : kFailed;
}

}  // namespace kcache::ctl

#endif  // KCACHE_CLIENT_CTL_EXIT_CODE_H_
