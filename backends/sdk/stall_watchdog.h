// Notices that a queue makes no progress: a kernel that never ends.
//
// Off unless the daemon asks for it (OpenContextRequest.stalled_kernel_ms): a kernel that runs for
// hours is legitimate. While it is on, queues mark every command, so that progress is seen command
// by command; a launch with `repeat` counts as one.
//
// Threads: has one of its own, which calls `list` and `on_stall`. Ownership: the destructor ends
// the thread, and must not be called from either callback.

#ifndef KCACHE_BACKENDS_SDK_STALL_WATCHDOG_H_
#define KCACHE_BACKENDS_SDK_STALL_WATCHDOG_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "contract/mutex.h"

namespace kcache::backend {

class StallWatchdog {
 public:
  struct QueueProgress {
    uint64_t session = 0;
    uint32_t queue = 0;
    bool busy = false;       // something was given to the driver and is not known to be done
    uint64_t completed = 0;  // commands known to be done
  };
  using List = std::function<std::vector<QueueProgress>()>;

  // Runs `on_stall` once, with DEVICE_LOST naming session, queue and time, as soon as a queue that
  // is busy has completed nothing for `limit`.
  StallWatchdog(std::chrono::milliseconds limit, List list,
                std::function<void(const absl::Status&)> on_stall);
  ~StallWatchdog();
  StallWatchdog(const StallWatchdog&) = delete;
  StallWatchdog& operator=(const StallWatchdog&) = delete;

  // One look at the queues, at `now`: the verdict. For tests; the thread does this by itself.
  absl::Status Look(std::chrono::steady_clock::time_point now);

 private:
  struct Seen {
    uint64_t completed = 0;
    std::chrono::steady_clock::time_point since;
  };

  void Run();

  const std::chrono::milliseconds limit_;
  const List list_;
  const std::function<void(const absl::Status&)> on_stall_;
  std::map<std::pair<uint64_t, uint32_t>, Seen> seen_;  // busy queues; used by Look alone

  Mutex mutex_;
  CondVar stopped_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_STALL_WATCHDOG_H_
