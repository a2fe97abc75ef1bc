// An executor and a clock that tests drive by hand: nothing happens by itself, everything happens in
// a known order.
//
// Threads: one.

#ifndef KCACHE_TESTS_UNIT_CORE_MANUAL_EXECUTOR_H_
#define KCACHE_TESTS_UNIT_CORE_MANUAL_EXECUTOR_H_

#include <deque>
#include <map>
#include <utility>

#include "daemon/core/dependencies.h"

namespace kcache::core {

class ManualClock : public Clock {
 public:
  absl::Duration Now() const override { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Duration now_ = absl::Seconds(1000);
};

class ManualExecutor : public Executor {
 public:
  explicit ManualExecutor(ManualClock* clock) : clock_(clock) {}

  void Run(Function<void()> task) override {
    Post(std::move(task));
    if (!running_) Drain();
  }
  void Post(Function<void()> task) override { tasks_.push_back(std::move(task)); }
  TimerId RunAfter(absl::Duration delay, Function<void()> task) override {
    const TimerId id = ++next_timer_;
    due_[{clock_->Now() + delay, id}] = std::move(task);
    when_[id] = clock_->Now() + delay;
    return id;
  }
  void Cancel(TimerId timer) override {
    auto found = when_.find(timer);
    if (found == when_.end()) return;
    due_.erase({found->second, timer});
    when_.erase(found);
  }

  // Runs what is queued, and what that queues.
  void Drain() {
    running_ = true;
    while (!tasks_.empty()) {
      Function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
    running_ = false;
  }
  // Lets time pass in order, timer by timer.
  void Advance(absl::Duration by) {
    const absl::Duration end = clock_->Now() + by;
    Drain();
    while (!due_.empty() && due_.begin()->first.first <= end) {
      auto next = due_.begin();
      if (next->first.first > clock_->Now()) clock_->Advance(next->first.first - clock_->Now());
      Fire(next);
    }
    clock_->Advance(end - clock_->Now());
    Drain();
  }
  // The whole process was stopped: time passes, then every timer that is due fires at once.
  void Stall(absl::Duration by) {
    clock_->Advance(by);
    while (!due_.empty() && due_.begin()->first.first <= clock_->Now()) Fire(due_.begin());
    Drain();
  }
  size_t timers() const { return due_.size(); }

 private:
  using Due = std::map<std::pair<absl::Duration, TimerId>, Function<void()>>;
  void Fire(Due::iterator next) {
    Function<void()> task = std::move(next->second);
    when_.erase(next->first.second);
    due_.erase(next);
    Run(std::move(task));
  }

  ManualClock* const clock_;
  bool running_ = false;
  std::deque<Function<void()>> tasks_;
  Due due_;
  std::map<TimerId, absl::Duration> when_;
  TimerId next_timer_ = 0;
};

}  // namespace kcache::core

#endif  // KCACHE_TESTS_UNIT_CORE_MANUAL_EXECUTOR_H_
