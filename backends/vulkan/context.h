// One Vulkan device, opened for one trust domain.
//
// Threads and ownership as backends/sdk/driver.h says. Vulkan wants every child gone before its
// device: Close sees to that whatever was left, in the order queues, kernels, modules, memory.

#ifndef KCACHE_BACKENDS_VULKAN_CONTEXT_H_
#define KCACHE_BACKENDS_VULKAN_CONTEXT_H_

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "backends/sdk/driver.h"
#include "backends/vulkan/device.h"
#include "backends/vulkan/handle_table.h"
#include "backends/vulkan/kernel.h"
#include "backends/vulkan/memory.h"
#include "backends/vulkan/stream.h"

namespace kcache::backend::vulkan {

class VulkanContext : public Context {
 public:
  // `info` is what device() answers.
  static absl::StatusOr<std::unique_ptr<VulkanContext>> Open(std::shared_ptr<Instance> instance,
                                                             PhysicalDevice physical,
                                                             v1::DeviceInfo info);
  ~VulkanContext() override;

  const v1::DeviceInfo& device() const override { return info_; }

  absl::StatusOr<ModuleHandle> LoadModule(const v1::Artifact& artifact,
                                          LoadStatistics* statistics) override;
  absl::Status UnloadModule(ModuleHandle module) override;
  absl::StatusOr<KernelHandle> ResolveKernel(ModuleHandle module,
                                             const v1::Specialization& specialization,
                                             v1::KernelInfo* info,
                                             LoadStatistics* statistics) override;
  absl::Status ReleaseKernel(KernelHandle kernel) override;

  absl::StatusOr<MemoryHandle> Allocate(uint64_t bytes, MemoryKind kind) override;
  absl::Status Free(MemoryHandle memory) override;

  absl::StatusOr<QueueHandle> CreateQueue() override;
  absl::Status DestroyQueue(QueueHandle queue) override;

  absl::Status Launch(QueueHandle queue, const LaunchCommand& command) override;
  absl::Status Write(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                     std::string_view data) override;
  absl::Status Read(QueueHandle queue, MemoryHandle source, uint64_t offset,
                    std::span<char> destination) override;
  absl::Status Copy(QueueHandle queue, MemoryHandle source, uint64_t source_offset,
                    MemoryHandle destination, uint64_t destination_offset, uint64_t bytes) override;
  absl::Status Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset, uint64_t bytes,
                    std::string_view pattern) override;
  absl::Status Flush(QueueHandle queue) override;
  absl::StatusOr<MarkerHandle> RecordMarker(QueueHandle queue) override;
  absl::Status WaitMarker(MarkerHandle marker) override;
  uint64_t late_compiles() const override { return late_compiles_.load(); }

  absl::Status Close() override;

 private:
  struct Marker {
    std::shared_ptr<Stream> stream;
    uint64_t value = 0;
  };

  VulkanContext(std::shared_ptr<Instance> instance, std::unique_ptr<Device> device,
                v1::DeviceInfo info);

  absl::StatusOr<std::shared_ptr<Stream>> QueueOf(QueueHandle queue) const;
  // The allocation, if offset + bytes lies within it.
  absl::StatusOr<std::shared_ptr<Allocation>> RangeOf(MemoryHandle memory, uint64_t offset,
                                                      uint64_t bytes) const;
  absl::Status BindArguments(const LaunchCommand& command, Dispatch* dispatch,
                             std::string* push_constants) const;

  const std::shared_ptr<Instance> instance_;
  std::unique_ptr<Device> device_;  // null once closed
  const v1::DeviceInfo info_;
  std::unique_ptr<Allocator> allocator_;
  std::atomic<uint32_t> next_hardware_queue_{0};
  std::atomic<uint64_t> late_compiles_{0};

  HandleTable<Allocation> memory_;
  HandleTable<LoadedModule> modules_;
  HandleTable<Kernel> kernels_;
  HandleTable<Stream> queues_;
  HandleTable<Marker> markers_;
};

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_CONTEXT_H_
