// An execution queue of one device: commands on it run in order, queues run side by side.
//
// Threads: any thread; commands of several threads on one queue interleave whole. Ownership: a
// Queue is a name, cheap to copy. It goes on working after its device was destroyed and acquired
// again.

#ifndef KCACHE_QUEUE_H_
#define KCACHE_QUEUE_H_

#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "kcache/device.h"

namespace kcache {

namespace internal {
class DeviceSlot;
}

class Queue {
 public:
  Queue() = default;

  bool empty() const { return slot_ == nullptr; }
  DeviceId device() const;
  uint32_t number() const { return number_; }

  // Waits until everything queued so far is done. Answers the first failure since the last
  // synchronize of this queue.
  absl::Status Synchronize() const;

  // The same without waiting: `done` runs once, on a thread of the library, and must not block.
  void SynchronizeAsync(std::function<void(absl::Status)> done) const;

  // Sends what is gathered, without waiting. Never needed for progress: what is gathered leaves by
  // itself as soon as the connection is idle.
  absl::Status Flush() const;

  const std::shared_ptr<internal::DeviceSlot>& slot() const { return slot_; }

 private:
  friend class Client;
  Queue(std::shared_ptr<internal::DeviceSlot> slot, uint32_t number)
      : slot_(std::move(slot)), number_(number) {}

  std::shared_ptr<internal::DeviceSlot> slot_;
  uint32_t number_ = 0;
};

}  // namespace kcache

#endif  // KCACHE_QUEUE_H_
