// One command buffer's worth of commands, with everything that must live until they have run.
//
//   recording ──End──► submitted ──Reset──► recording
//
// A batch keeps allocations and pipelines it uses alive, owns the staging memory and descriptor
// sets its commands refer to, and remembers what has to be copied to the host when it is done.
//
// Commands of one batch may overlap on the device unless they touch the same memory: Access says
// what a command will touch and puts a barrier in front of it when that is needed.
//
// Threads: one at a time. Ownership: its Stream; destroyed only when its commands are not running.

#ifndef KCACHE_BACKENDS_VULKAN_BATCH_H_
#define KCACHE_BACKENDS_VULKAN_BATCH_H_

#include <cstdint>
#include <memory>
#include <span>
#include <unordered_set>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/vulkan/device.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/pipeline.h"

namespace kcache::backend::vulkan {

// A piece of mapped memory that only one command of a batch uses.
struct Staging {
  Allocation* allocation = nullptr;
  uint64_t offset = 0;
  char* host = nullptr;
};

// A buffer argument as it is bound.
struct BoundBuffer {
  const Allocation* allocation = nullptr;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  friend bool operator==(const BoundBuffer&, const BoundBuffer&) = default;
};

class Batch {
 public:
  static absl::StatusOr<std::unique_ptr<Batch>> Create(Device* device, Allocator* allocator);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  VkCommandBuffer commands() const { return commands_; }
  uint32_t command_count() const { return command_count_; }
  uint64_t staging_bytes() const { return staging_used_; }

  // The value of its stream's timeline at which its commands have run.
  uint64_t value() const { return value_; }
  void set_value(uint64_t value) { value_ = value; }

  absl::Status Begin();
  absl::Status End();
  // After its commands have run: hands read data over, drops what it kept, is empty again.
  absl::Status Reset();

  // Keeps `object` until Reset.
  void Retain(std::shared_ptr<const void> object);
  absl::StatusOr<Staging> Stage(uint64_t bytes, MemoryUse use);
  void CopyToHostWhenDone(const char* from, char* to, uint64_t bytes) {
    readbacks_.push_back({from, to, bytes});
  }

  struct Touch {
    const Allocation* allocation = nullptr;
    bool write = false;
  };
  // Announces the next command. `everything`: it may touch any memory.
  void Access(std::span<const Touch> touches, bool everything = false);

  // Binds a pipeline with its buffers, as far as they are not bound already.
  absl::Status Bind(const Pipeline& pipeline, std::span<const BoundBuffer> buffers);

 private:
  struct Readback {
    const char* from;
    char* to;
    uint64_t bytes;
  };
  // Staging memory of one direction, used from the front.
  struct Arena {
    std::vector<std::shared_ptr<Allocation>> chunks;
    size_t current = 0;
    uint64_t used = 0;  // of the current chunk
  };

  Batch(Device* device, Allocator* allocator) : device_(device), allocator_(allocator) {}

  void Barrier();
  absl::StatusOr<std::vector<VkDescriptorSet>> AllocateSets(const Pipeline& pipeline);

  Device* const device_;
  Allocator* const allocator_;
  VkCommandPool pool_ = VK_NULL_HANDLE;
  VkCommandBuffer commands_ = VK_NULL_HANDLE;
  uint64_t value_ = 0;
  uint32_t command_count_ = 0;

  std::vector<std::shared_ptr<const void>> retained_;
  std::unordered_set<const void*> retained_set_;
  std::vector<Readback> readbacks_;
  Arena upload_, readback_;
  uint64_t staging_used_ = 0;

  // Since the last barrier.
  std::vector<Touch> touched_;
  bool touched_everything_ = false;

  std::vector<VkDescriptorPool> descriptor_pools_;
  size_t current_pool_ = 0;
  const Pipeline* bound_pipeline_ = nullptr;
  std::vector<BoundBuffer> bound_buffers_;
};

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_BATCH_H_
