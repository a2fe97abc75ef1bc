// Turns an asynchronous call into a blocking one. The caller has made sure that the thread may wait
// (ClientImpl::CheckMayWait).

#ifndef KCACHE_CLIENT_AWAIT_H_
#define KCACHE_CLIENT_AWAIT_H_

#include <sched.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "contract/mutex.h"

namespace kcache::internal {

// A place where one value arrives.
template <class T>
class Arrival {
 public:
  void Put(T value) {
    {
      MutexLock lock(&mutex_);
      value_.emplace(std::move(value));
    }
    there_.store(true, std::memory_order_release);
    // Without the lock: whoever wakes up must not have to wait for it.
    arrived_.NotifyAll();
  }
  T Take() {
    Spin();
    MutexLock lock(&mutex_);
    while (!value_.has_value()) arrived_.Wait(&mutex_);
    return *std::move(value_);
  }
  std::optional<T> TakeWithin(std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    MutexLock lock(&mutex_);
    while (!value_.has_value() && arrived_.WaitUntil(&mutex_, deadline)) {
    }
    return std::move(value_);
  }

 private:
  // A warm answer takes little longer than it takes a processor to fall asleep and be woken again,
  // so the first moments are spent awake; yielding, so that on a small machine whoever makes the
  // answer has the processor.
  static constexpr std::chrono::microseconds kSpin{200};

  void Spin() const {
    const auto end = std::chrono::steady_clock::now() + kSpin;
    while (!there_.load(std::memory_order_acquire) && std::chrono::steady_clock::now() < end) {
      sched_yield();
    }
  }

  std::atomic<bool> there_{false};
  Mutex mutex_;
  CondVar arrived_;
  std::optional<T> value_ ABSL_GUARDED_BY(mutex_);
};

// `start(done)` begins the call; `done` runs once, on any thread.
template <class T, class Start>
T Await(Start&& start) {
  // Shared: the waiter may be gone before the one who puts has let go.
  auto arrival = std::make_shared<Arrival<T>>();
  start(std::function<void(T)>([arrival](T value) { arrival->Put(std::move(value)); }));
  return arrival->Take();
}

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_AWAIT_H_
