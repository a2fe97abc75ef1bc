#include "client/src/threads.h"

#include <deque>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "client/src/callback_scope.h"
#include "contract/mutex.h"

namespace kcache::internal {
namespace {

void EndThread(std::thread* thread) {
  if (thread->get_id() == std::this_thread::get_id()) {
    thread->detach();
  } else {
    thread->join();
  }
}

}  // namespace

// ---- timers -------------------------------------------------------------------------------------

struct TimerThread::State {
  using Clock = std::chrono::steady_clock;

  Mutex mutex;
  CondVar changed;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  Id last_id ABSL_GUARDED_BY(mutex) = 0;
  std::map<std::pair<Clock::time_point, Id>, Task> queue ABSL_GUARDED_BY(mutex);
  std::map<Id, Clock::time_point> due ABSL_GUARDED_BY(mutex);
};

TimerThread::TimerThread() : state_(std::make_shared<State>()) {
  thread_ = std::thread([state = state_] { Serve(state); });
}

TimerThread::~TimerThread() {
  {
    MutexLock lock(&state_->mutex);
    state_->stopping = true;
    state_->changed.NotifyAll();
  }
  EndThread(&thread_);
}

Time TimerThread::Now() { return State::Clock::now().time_since_epoch(); }

TimerThread::Id TimerThread::After(Duration delay, Task task) {
  MutexLock lock(&state_->mutex);
  const Id id = ++state_->last_id;
  const auto due = State::Clock::now() + delay;
  state_->due[id] = due;
  const auto placed = state_->queue.emplace(std::make_pair(due, id), std::move(task)).first;
  if (placed == state_->queue.begin()) state_->changed.NotifyAll();
  return id;
}

void TimerThread::Cancel(Id timer) {
  Task dropped;  // destroyed without the lock
  MutexLock lock(&state_->mutex);
  const auto found = state_->due.find(timer);
  if (found == state_->due.end()) return;
  const auto entry = state_->queue.find({found->second, timer});
  dropped = std::move(entry->second);
  state_->queue.erase(entry);
  state_->due.erase(found);
}

void TimerThread::Serve(const std::shared_ptr<State>& state) {
  CallbackScope scope;
  while (true) {
    Task task;
    {
      MutexLock lock(&state->mutex);
      while (!state->stopping) {
        if (state->queue.empty()) {
          state->changed.Wait(&state->mutex);
          continue;
        }
        const auto next = state->queue.begin();
        if (next->first.first <= State::Clock::now()) break;
        state->changed.WaitUntil(&state->mutex, next->first.first);
      }
      if (state->stopping) break;
      const auto next = state->queue.begin();
      task = std::move(next->second);
      state->due.erase(next->first.second);
      state->queue.erase(next);
    }
    std::move(task)();
  }
  std::map<std::pair<State::Clock::time_point, Id>, Task> dropped;
  MutexLock lock(&state->mutex);
  dropped.swap(state->queue);
}

// ---- tasks --------------------------------------------------------------------------------------

struct TaskThread::State {
  Mutex mutex;
  CondVar changed;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::deque<Task> tasks ABSL_GUARDED_BY(mutex);
};

TaskThread::TaskThread() : state_(std::make_shared<State>()) {
  thread_ = std::thread([state = state_] { Serve(state); });
}

TaskThread::~TaskThread() {
  {
    MutexLock lock(&state_->mutex);
    state_->stopping = true;
    state_->changed.NotifyAll();
  }
  EndThread(&thread_);
}

void TaskThread::Post(Task task) {
  {
    MutexLock lock(&state_->mutex);
    state_->tasks.push_back(std::move(task));
  }
  state_->changed.NotifyAll();
}

void TaskThread::Serve(const std::shared_ptr<State>& state) {
  CallbackScope scope;
  while (true) {
    Task task;
    {
      MutexLock lock(&state->mutex);
      while (!state->stopping && state->tasks.empty()) state->changed.Wait(&state->mutex);
      if (state->stopping) break;
      task = std::move(state->tasks.front());
      state->tasks.pop_front();
    }
    std::move(task)();
  }
  std::deque<Task> dropped;
  MutexLock lock(&state->mutex);
  dropped.swap(state->tasks);
}

}  // namespace kcache::internal
