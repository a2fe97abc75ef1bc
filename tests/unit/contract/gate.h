// A door that threads of a test wait at until another one opens it: how tests put threads where
// they want them without sleeping.
#ifndef KCACHE_TESTS_UNIT_CONTRACT_GATE_H_
#define KCACHE_TESTS_UNIT_CONTRACT_GATE_H_

#include "contract/mutex.h"

namespace kcache::testing {

class Gate {
 public:
  void Open() {
    MutexLock lock(&mutex_);
    open_ = true;
    changed_.NotifyAll();
  }
  void Wait() {
    MutexLock lock(&mutex_);
    while (!open_) changed_.Wait(&mutex_);
  }
  bool is_open() {
    MutexLock lock(&mutex_);
    return open_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace kcache::testing

#endif  // KCACHE_TESTS_UNIT_CONTRACT_GATE_H_
