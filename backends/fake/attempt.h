// What somebody who has taken over a backend would try next. A compiler cannot be made to do most of
// this by its input, as far as anybody knows; the fake's can, so that tests see what the sandbox
// answers to a process that really tries.
//
//   fork                processes that start processes, without end
//   read PATH | list PATH | write PATH
//   device PATH         opens a device node, or makes one
//   connect PORT        to 127.0.0.1
//   signal PID          SIGKILL
//   trace PID           attaches as a debugger
//
// Threads: any, but `fork` is for a process that has nothing else to do.

#ifndef KCACHE_BACKENDS_FAKE_ATTEMPT_H_
#define KCACHE_BACKENDS_FAKE_ATTEMPT_H_

#include <string_view>

#include "absl/status/status.h"

namespace kcache::backend::fake {

// Whether `what` is one of the above.
bool IsAttempt(std::string_view what);

// OK: it got through. PERMISSION_DENIED naming what the kernel said: it did not.
absl::Status Attempt(std::string_view what);

}  // namespace kcache::backend::fake

#endif  // KCACHE_BACKENDS_FAKE_ATTEMPT_H_
