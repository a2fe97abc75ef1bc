// Time and threads that a test moves by hand.

#ifndef KCACHE_TESTS_UNIT_CLIENT_MANUAL_SCHEDULING_H_
#define KCACHE_TESTS_UNIT_CLIENT_MANUAL_SCHEDULING_H_

#include <deque>
#include <map>
#include <utility>

#include "client/src/scheduling.h"
#include "contract/mutex.h"

namespace kcache::internal {

// Threads: any; tasks run on whoever calls Advance.
class ManualTimers final : public Timers {
 public:
  Time Now() override {
    MutexLock lock(&mutex_);
    return now_;
  }
  Id After(Duration delay, Task task) override {
    MutexLock lock(&mutex_);
    const Id id = ++last_id_;
    tasks_.emplace(std::make_pair(now_ + delay, id), std::move(task));
    return id;
  }
  void Cancel(Id timer) override {
    Task dropped;
    MutexLock lock(&mutex_);
    for (auto task = tasks_.begin(); task != tasks_.end(); ++task) {
      if (task->first.second != timer) continue;
      dropped = std::move(task->second);
      tasks_.erase(task);
      return;
    }
  }

  // Moves time, running what falls due on the way, in order.
  void Advance(Duration duration) {
    const Time until = Now() + duration;
    while (true) {
      Task task;
      {
        MutexLock lock(&mutex_);
        if (tasks_.empty() || tasks_.begin()->first.first > until) {
          now_ = until;
          return;
        }
        now_ = std::max(now_, tasks_.begin()->first.first);
        task = std::move(tasks_.begin()->second);
        tasks_.erase(tasks_.begin());
      }
      std::move(task)();
    }
  }

  // What will not fall due any more. A task owns who armed it.
  void Drop() {
    std::map<std::pair<Time, Id>, Task> dropped;
    MutexLock lock(&mutex_);
    dropped.swap(tasks_);
  }

  size_t pending() {
    MutexLock lock(&mutex_);
    return tasks_.size();
  }

 private:
  Mutex mutex_;
  Time now_ = std::chrono::hours(1);
  Id last_id_ = 0;
  std::map<std::pair<Time, Id>, Task> tasks_;
};

// The listeners' thread: runs what is posted when the test says so, or at once.
class ManualRunner final : public TaskRunner {
 public:
  void Post(Task task) override {
    tasks_.push_back(std::move(task));
    if (immediate_) RunAll();
  }
  void RunAll() {
    while (RunOne()) {
    }
  }
  bool RunOne() {
    if (running_ || tasks_.empty()) return false;
    running_ = true;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    std::move(task)();
    running_ = false;
    return true;
  }
  void set_immediate(bool immediate) { immediate_ = immediate; }
  size_t pending() const { return tasks_.size(); }

 private:
  std::deque<Task> tasks_;
  bool immediate_ = true;
  bool running_ = false;
};

}  // namespace kcache::internal

#endif  // KCACHE_TESTS_UNIT_CLIENT_MANUAL_SCHEDULING_H_
