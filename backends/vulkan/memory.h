// Device memory: each allocation is one buffer with memory of its own.
//
// Drivers differ in whether they refuse what does not fit (some overcommit and die later), so the
// allocator keeps count per heap and refuses beyond the heap's size itself.
//
// Threads: Allocate from any thread; an Allocation is immutable and may be dropped on any thread.
// Ownership: shared by the handle table and the work in flight that uses it; the Allocator and its
// Device outlive every Allocation.

#ifndef KCACHE_BACKENDS_VULKAN_MEMORY_H_
#define KCACHE_BACKENDS_VULKAN_MEMORY_H_

#include <array>
#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "backends/vulkan/device.h"
#include "contract/mutex.h"

namespace kcache::backend::vulkan {

class Allocator;

enum class MemoryUse {
  kDevice,    // device-local
  kHost,      // host-visible, for kernels
  kUpload,    // mapped, written by the host
  kReadback,  // mapped, read by the host: cached where there is such memory
};

class Allocation {
 public:
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  VkBuffer buffer() const { return buffer_; }
  uint64_t bytes() const { return bytes_; }  // as asked for
  // What the buffer really has: whole words, so that fills and updates can end where it does.
  uint64_t padded_bytes() const { return padded_; }
  char* mapped() const { return mapped_; }  // kUpload and kReadback only

 private:
  friend class Allocator;
  explicit Allocation(Allocator* allocator) : allocator_(allocator) {}

  Allocator* const allocator_;
  VkBuffer buffer_ = VK_NULL_HANDLE;
  VkDeviceMemory memory_ = VK_NULL_HANDLE;
  uint64_t bytes_ = 0;
  uint64_t padded_ = 0;
  uint64_t charged_ = 0;
  uint32_t heap_ = 0;
  char* mapped_ = nullptr;
};

class Allocator {
 public:
  explicit Allocator(Device* device) : device_(device) {}

  // OUT_OF_DEVICE_MEMORY naming the heap or the limit that is too small.
  absl::StatusOr<std::shared_ptr<Allocation>> Allocate(uint64_t bytes, MemoryUse use);

 private:
  friend class Allocation;

  absl::Status Charge(uint32_t heap, uint64_t bytes);
  void Refund(uint32_t heap, uint64_t bytes);

  Device* const device_;
  Mutex mutex_;
  std::array<uint64_t, VK_MAX_MEMORY_HEAPS> used_ ABSL_GUARDED_BY(mutex_){};
};

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_MEMORY_H_
