// Runs tasks one at a time, in order, on whoever brings them: the session's events need an order
// but no thread of their own, and a round trip saves two thread switches.
//
// Run() from inside a task queues behind what is queued. Tasks never block; no lock is held while
// they run, so they may call out (transports, callbacks).
//
// Threads: any. Ownership: must outlive the tasks' last Run().

#ifndef KCACHE_CLIENT_SERIAL_EXECUTOR_H_
#define KCACHE_CLIENT_SERIAL_EXECUTOR_H_

#include <deque>

#include "absl/base/thread_annotations.h"
#include "client/src/callback_scope.h"
#include "client/src/scheduling.h"
#include "contract/mutex.h"

namespace kcache::internal {

class SerialExecutor {
 public:
  void Run(Task task) {
    {
      MutexLock lock(&mutex_);
      tasks_.push_back(std::move(task));
      if (running_) return;
      running_ = true;
    }
    CallbackScope scope;
    while (true) {
      Task next;
      {
        MutexLock lock(&mutex_);
        if (tasks_.empty()) {
          running_ = false;
          return;
        }
        next = std::move(tasks_.front());
        tasks_.pop_front();
      }
      std::move(next)();
    }
  }

 private:
  Mutex mutex_;
  std::deque<Task> tasks_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_SERIAL_EXECUTOR_H_
