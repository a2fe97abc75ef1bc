// A gate that can be closed for good: the heart of a fence (G1).
//
//   OPEN ──Close() or Shut()──► CLOSED   (nobody enters any more; Close returns when the last one has left)
//
// Entering costs two atomic operations and never blocks.
//
// Threads: any. Close() must not be called from inside the gate.

#ifndef KCACHE_BACKENDS_SDK_ADMISSION_GATE_H_
#define KCACHE_BACKENDS_SDK_ADMISSION_GATE_H_

#include <atomic>
#include <cstdint>

namespace kcache::backend {

class AdmissionGate {
 public:
  // True: entered, Leave() must follow.
  bool Enter() {
    if ((state_.fetch_add(kOne, std::memory_order_acquire) & kClosed) == 0) return true;
    Leave();
    return false;
  }
  void Leave() {
    if (state_.fetch_sub(kOne, std::memory_order_release) == (kOne | kClosed)) state_.notify_all();
  }
  // Closes for those who come, from wherever; who is inside leaves in his own time.
  void Shut() { state_.fetch_or(kClosed, std::memory_order_acq_rel); }
  // Closes, and waits until nobody is inside. Idempotent.
  void Close() {
    uint64_t state = state_.fetch_or(kClosed, std::memory_order_acq_rel) | kClosed;
    while (state != kClosed) {
      state_.wait(state, std::memory_order_acquire);
      state = state_.load(std::memory_order_acquire);
    }
  }
  bool closed() const { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }

 private:
  static constexpr uint64_t kClosed = 1;
  static constexpr uint64_t kOne = 2;
  std::atomic<uint64_t> state_{0};
};

// Enters for a scope.
class Admission {
 public:
  explicit Admission(AdmissionGate* gate) : gate_(gate->Enter() ? gate : nullptr) {}
  ~Admission() {
    if (gate_ != nullptr) gate_->Leave();
  }
  Admission(const Admission&) = delete;
  Admission& operator=(const Admission&) = delete;
  explicit operator bool() const { return gate_ != nullptr; }

 private:
  AdmissionGate* const gate_;
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_ADMISSION_GATE_H_
