// The library's own threads: one for time, one for listeners.
//
// Ownership: destroying either ends its thread after the task that is running; tasks that have not
// started are dropped. Destroyed on its own thread (a callback dropped the last client), it lets
// the thread finish by itself.

#ifndef KCACHE_CLIENT_THREADS_H_
#define KCACHE_CLIENT_THREADS_H_

#include <memory>
#include <thread>

#include "client/src/scheduling.h"

namespace kcache::internal {

class TimerThread final : public Timers {
 public:
  TimerThread();
  ~TimerThread() override;

  Time Now() override;
  Id After(Duration delay, Task task) override;
  void Cancel(Id timer) override;

 private:
  struct State;
  static void Serve(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

class TaskThread final : public TaskRunner {
 public:
  TaskThread();
  ~TaskThread() override;

  void Post(Task task) override;

 private:
  struct State;
  static void Serve(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_THREADS_H_
