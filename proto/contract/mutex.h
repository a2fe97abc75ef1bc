// A mutex with lock annotations that ThreadSanitizer understands.
//
// absl::Mutex lives in a shared library that is not instrumented, so under ThreadSanitizer
// everything it guards would look racy. This one is std::mutex, with the annotations that clang's
// -Wthread-safety reads. No lock is ever held across a call out: gRPC, a driver, a callback.
//
// Threads: any.

#ifndef KCACHE_CONTRACT_MUTEX_H_
#define KCACHE_CONTRACT_MUTEX_H_

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace kcache {

class ABSL_LOCKABLE Mutex {
 public:
  Mutex() = default;
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;

  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION() { mutex_.lock(); }
  void Unlock() ABSL_UNLOCK_FUNCTION() { mutex_.unlock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex* mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_->Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_->Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex* const mutex_;
};

// As std::condition_variable: wake-ups may be spurious, so wait in a loop over the condition.
class CondVar {
 public:
  void Wait(Mutex* mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    variable_.wait(lock);
    lock.release();
  }

  // False when `deadline` has passed.
  bool WaitUntil(Mutex* mutex, std::chrono::steady_clock::time_point deadline)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    std::unique_lock<std::mutex> lock(mutex->mutex_, std::adopt_lock);
    const std::cv_status status = variable_.wait_until(lock, deadline);
    lock.release();
    return status == std::cv_status::no_timeout;
  }

  void NotifyOne() { variable_.notify_one(); }
  void NotifyAll() { variable_.notify_all(); }

 private:
  std::condition_variable variable_;
};

}  // namespace kcache

#endif  // KCACHE_CONTRACT_MUTEX_H_
