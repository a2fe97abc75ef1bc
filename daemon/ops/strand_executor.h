// The core's executor on real threads: tasks run one at a time, in order, on whatever thread brings
// work while nobody else runs it; else on the strand's own thread.
//
//   Run, idle ──► runs on the caller's thread: a warm acquire goes from the transport's read through
//                 the core to the transport's write without a change of thread
//   Run, busy ──► queued; the thread that is busy takes it next
//   Post, timer ► queued; the strand's own thread wakes when nobody is busy
//
// A thread that came with one task does not stay for ever: after kBorrowedTasks it hands what is
// still queued to the strand's own thread.
//
// Threads: Run, Post and Stop from any thread; RunAfter and Cancel on the executor. No task is run
// or destroyed with the lock held.

#ifndef KCACHE_DAEMON_OPS_STRAND_EXECUTOR_H_
#define KCACHE_DAEMON_OPS_STRAND_EXECUTOR_H_

#include <deque>
#include <map>
#include <thread>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "contract/mutex.h"
#include "daemon/core/dependencies.h"

namespace kcache::ops {

class StrandExecutor : public core::Executor {
 public:
  static constexpr int kBorrowedTasks = 64;

  // `clock` outlives the executor.
  explicit StrandExecutor(const core::Clock* clock);
  ~StrandExecutor() override;

  void Run(core::Function<void()> task) override;
  void Post(core::Function<void()> task) override;
  core::TimerId RunAfter(absl::Duration delay, core::Function<void()> task) override;
  void Cancel(core::TimerId timer) override;

  // Waits for the task that is running and drops all others, now and later. Not from a task.
  void Stop();

  // Whether the calling thread is inside a task of this executor.
  bool IsCurrent() const;

 private:
  using Task = core::Function<void()>;

  void Loop();
  // Runs queued tasks, at most `limit` (0: until none is left); `busy_` is the caller's.
  void Drain(int limit);
  void QueueDueTimers() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const core::Clock* const clock_;
  Mutex mutex_;
  CondVar wake_;
  CondVar idle_;
  std::deque<Task> queue_ ABSL_GUARDED_BY(mutex_);
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool handed_over_ ABSL_GUARDED_BY(mutex_) = false;  // busy_ now belongs to the strand's thread
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  core::TimerId next_timer_ ABSL_GUARDED_BY(mutex_) = 1;
  std::multimap<absl::Duration, core::TimerId> deadlines_ ABSL_GUARDED_BY(mutex_);
  // A due timer's task stays here until it runs, so that Cancel works up to that moment.
  std::unordered_map<core::TimerId, Task> timers_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_STRAND_EXECUTOR_H_
