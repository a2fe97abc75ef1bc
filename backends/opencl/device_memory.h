// One allocation of a context: a buffer, with the sub-buffers that stand for parts of it, or an
// image.
//
// Threads: any. Ownership: the sub-buffers made for kernel arguments live as long as the buffer.

#ifndef KCACHE_BACKENDS_OPENCL_DEVICE_MEMORY_H_
#define KCACHE_BACKENDS_OPENCL_DEVICE_MEMORY_H_

#include <cstdint>
#include <map>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/opencl/cl_object.h"
#include "contract/mutex.h"

namespace kcache::backend::opencl {

class DeviceMemory {
 public:
  // `alignment`: what the device wants of a sub-buffer's offset, in bytes.
  DeviceMemory(ClMemory memory, uint64_t bytes, bool is_image, uint64_t alignment)
      : memory_(std::move(memory)), bytes_(bytes), is_image_(is_image), alignment_(alignment) {}

  cl_mem get() const { return memory_.get(); }
  uint64_t bytes() const { return bytes_; }
  bool is_image() const { return is_image_; }

  // The object that shows a kernel the bytes from `offset` on: the buffer itself for offset 0, else
  // a sub-buffer. An offset that the device cannot address is INVALID_ARGUMENTS naming it and the
  // alignment: drivers do not always notice.
  absl::StatusOr<cl_mem> View(uint64_t offset, uint64_t bytes);

  // Gives everything back; the first failure.
  absl::Status Release();

 private:
  ClMemory memory_;
  const uint64_t bytes_;
  const bool is_image_;
  const uint64_t alignment_;
  Mutex mutex_;
  std::map<std::pair<uint64_t, uint64_t>, ClMemory> views_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_DEVICE_MEMORY_H_
