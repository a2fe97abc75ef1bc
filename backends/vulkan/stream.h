// An execution queue: commands in order, submitted in batches.
//
// Commands are recorded into an open batch, which is submitted at Flush and Mark, and by itself
// when it is long. Each submission raises the stream's timeline semaphore by one, and a marker is a
// value of it. Several streams may share one hardware queue.
//
//   open ──Submit──► pending (timeline < value) ──Complete──► free ──► open
//
// Staging memory of pending batches is bounded: beyond the bound a transfer waits for the oldest.
//
// Threads: one at a time, but Wait runs beside everything else. Ownership: destroyed only when the
// device does not run its commands any more.

#ifndef KCACHE_BACKENDS_VULKAN_STREAM_H_
#define KCACHE_BACKENDS_VULKAN_STREAM_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/vulkan/batch.h"
#include "backends/vulkan/device.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/pipeline.h"
#include "contract/mutex.h"

namespace kcache::backend::vulkan {

struct BufferArgument {
  std::shared_ptr<Allocation> allocation;
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

struct Dispatch {
  std::shared_ptr<const Pipeline> pipeline;
  std::vector<BufferArgument> buffers;  // one per slot of the pipeline
  std::string_view push_constants;      // the pipeline's bytes, or empty when it has none
  uint32_t grid[3] = {1, 1, 1};
  uint32_t repeat = 1;
};

class Stream {
 public:
  static absl::StatusOr<std::unique_ptr<Stream>> Create(Device* device, Allocator* allocator,
                                                        uint32_t hardware_queue);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Ranges are the caller's to check; alignment is not: any offset and size will do.
  absl::Status Launch(const Dispatch& dispatch);
  absl::Status Write(const std::shared_ptr<Allocation>& destination, uint64_t offset,
                     std::string_view data);
  // `destination` is filled when a marker recorded afterwards has been waited for.
  absl::Status Read(const std::shared_ptr<Allocation>& source, uint64_t offset,
                    std::span<char> destination);
  absl::Status Copy(const std::shared_ptr<Allocation>& source, uint64_t source_offset,
                    const std::shared_ptr<Allocation>& destination, uint64_t destination_offset,
                    uint64_t bytes);
  // `pattern` has 1, 2, 4, 8 or 16 bytes; `bytes` is a multiple of that.
  absl::Status Fill(const std::shared_ptr<Allocation>& destination, uint64_t offset, uint64_t bytes,
                    std::string_view pattern);

  absl::Status Flush();
  // Submits, and answers the value that stands for everything so far.
  absl::StatusOr<uint64_t> Mark();
  absl::Status Wait(uint64_t value);

 private:
  Stream(Device* device, Allocator* allocator, uint32_t hardware_queue)
      : device_(device), allocator_(allocator), hardware_queue_(hardware_queue) {}

  absl::StatusOr<Batch*> Open();
  absl::Status SubmitIfLong();
  absl::Status Submit();
  // Completes what has run, and waits for the oldest while too much staging memory is pending.
  absl::Status Reclaim();
  absl::Status Complete(uint64_t value);

  absl::Status FillWords(Batch* batch, const Allocation& destination, uint64_t offset,
                         uint64_t bytes, std::string_view pattern);
  absl::Status FillByCopies(Batch* batch, const Allocation& destination, uint64_t offset,
                            uint64_t bytes, std::string_view pattern);

  Device* const device_;
  Allocator* const allocator_;
  const uint32_t hardware_queue_;
  VkSemaphore timeline_ = VK_NULL_HANDLE;
  uint64_t submitted_ = 0;
  std::unique_ptr<Batch> open_;  // recording; null: none

  Mutex mutex_;
  CondVar completed_;
  bool completing_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::unique_ptr<Batch>> pending_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Batch>> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_STREAM_H_
