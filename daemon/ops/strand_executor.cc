#include "daemon/ops/strand_executor.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace kcache::ops {
namespace {

thread_local const StrandExecutor* current_executor = nullptr;

}  // namespace

StrandExecutor::StrandExecutor(const core::Clock* clock)
    : clock_(clock), thread_([this] { Loop(); }) {
  pthread_setname_np(thread_.native_handle(), "strand");
}

StrandExecutor::~StrandExecutor() { Stop(); }

bool StrandExecutor::IsCurrent() const { return current_executor == this; }

void StrandExecutor::Run(Task task) {
  {
    MutexLock lock(&mutex_);
    if (stopped_) return;
    if (busy_ || !queue_.empty()) {
      queue_.push_back(std::move(task));
      if (busy_) return;
      task = nullptr;
    }
    busy_ = true;
  }
  if (task) {
    current_executor = this;
    task();
    task = nullptr;
    current_executor = nullptr;
  }
  Drain(kBorrowedTasks);
}

void StrandExecutor::Post(Task task) {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  queue_.push_back(std::move(task));
  if (!busy_) wake_.NotifyOne();
}

core::TimerId StrandExecutor::RunAfter(absl::Duration delay, Task task) {
  const absl::Duration deadline = clock_->Now() + std::max(delay, absl::ZeroDuration());
  MutexLock lock(&mutex_);
  if (stopped_) return 0;
  const core::TimerId timer = next_timer_++;
  timers_.emplace(timer, std::move(task));
  const bool first = deadlines_.empty() || deadline < deadlines_.begin()->first;
  deadlines_.emplace(deadline, timer);
  if (first) wake_.NotifyOne();
  return timer;
}

void StrandExecutor::Cancel(core::TimerId timer) {
  Task dropped;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const auto found = timers_.find(timer);
  if (found == timers_.end()) return;
  dropped = std::move(found->second);
  timers_.erase(found);
  // Its deadline stays; nothing is found under it when it comes.
}

void StrandExecutor::QueueDueTimers() {
  if (deadlines_.empty()) return;
  const absl::Duration now = clock_->Now();
  while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
    const core::TimerId timer = deadlines_.begin()->second;
    deadlines_.erase(deadlines_.begin());
    if (!timers_.contains(timer)) continue;
    queue_.push_back([this, timer] {
      Task task;
      {
        MutexLock lock(&mutex_);
        const auto found = timers_.find(timer);
        if (found == timers_.end()) return;
        task = std::move(found->second);
        timers_.erase(found);
      }
      task();
    });
  }
}

void StrandExecutor::Drain(int limit) {
  current_executor = this;
  for (int done = 0;; ++done) {
    Task task;
    {
      MutexLock lock(&mutex_);
      if (stopped_ || queue_.empty()) {
        busy_ = false;
        idle_.NotifyAll();
        break;
      }
      if (limit > 0 && done >= limit) {
        handed_over_ = true;
        wake_.NotifyOne();
        break;
      }
      task = std::move(queue_.front());
      queue_.pop_front();
    }
    task();
  }
  current_executor = nullptr;
}

void StrandExecutor::Loop() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      for (;;) {
        if (stopped_) {
          if (handed_over_) busy_ = handed_over_ = false;
          idle_.NotifyAll();
          return;
        }
        QueueDueTimers();
        if (handed_over_) break;
        if (!busy_ && !queue_.empty()) break;
        if (deadlines_.empty()) {
          wake_.Wait(&mutex_);
        } else {
          const absl::Duration left = deadlines_.begin()->first - clock_->Now();
          // Rounded up, so that the deadline has passed when the wait is over.
          wake_.WaitUntil(&mutex_, std::chrono::steady_clock::now() +
                                       absl::ToChronoMicroseconds(left) +
                                       std::chrono::microseconds(1));
        }
      }
      busy_ = true;
      handed_over_ = false;
    }
    Drain(0);
  }
}

void StrandExecutor::Stop() {
  std::deque<Task> queue;
  std::unordered_map<core::TimerId, Task> timers;
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    wake_.NotifyOne();
  }
  if (thread_.joinable()) thread_.join();
  {
    MutexLock lock(&mutex_);
    while (busy_) idle_.Wait(&mutex_);
    queue.swap(queue_);
    timers.swap(timers_);
    deadlines_.clear();
  }
}

}  // namespace kcache::ops
