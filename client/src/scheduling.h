// What the library takes from outside: time and threads. Injected, so that tests drive every
// interleaving by hand.

#ifndef KCACHE_CLIENT_SCHEDULING_H_
#define KCACHE_CLIENT_SCHEDULING_H_

#include <chrono>
#include <cstdint>

#include "absl/functional/any_invocable.h"

namespace kcache::internal {

using Task = absl::AnyInvocable<void()>;
using Duration = std::chrono::nanoseconds;
// Time since an arbitrary start; never jumps with the wall clock.
using Time = std::chrono::nanoseconds;

// Threads: any. Tasks run on a thread of the timers' own, one at a time, and do not block.
class Timers {
 public:
  using Id = uint64_t;  // 0: no timer

  virtual ~Timers() = default;
  virtual Time Now() = 0;
  virtual Id After(Duration delay, Task task) = 0;
  // The task will not start any more; it may be running.
  virtual void Cancel(Id timer) = 0;
};

// Runs tasks one at a time, in order, on a thread where they may block: the application's
// listeners.
class TaskRunner {
 public:
  virtual ~TaskRunner() = default;
  virtual void Post(Task task) = 0;
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_SCHEDULING_H_
