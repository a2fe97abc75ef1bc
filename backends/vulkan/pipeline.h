// A SPIR-V module on a device, and the compute pipelines made from it.
//
// Threads: any; a Pipeline is immutable, and Vulkan synchronizes pipeline caches itself.
// Ownership: both refer to their Device, which outlives them. A Pipeline does not need its module
// any more.

#ifndef KCACHE_BACKENDS_VULKAN_PIPELINE_H_
#define KCACHE_BACKENDS_VULKAN_PIPELINE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/vulkan/device.h"
#include "backends/vulkan/reflection.h"
#include "backends/vulkan/spirv_module.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::vulkan {

using LocalSize = std::array<uint32_t, 3>;

// INVALID_ARGUMENTS when a value is shorter than the constant it is for. Ids that the module does
// not have are ignored, as Vulkan does: an optimizer may have removed them.
absl::StatusOr<SpecializationValues> SpecializationOf(const v1::Specialization& specialization,
                                                      const SpirvModule& module);

// Where one buffer argument goes.
struct DescriptorSlot {
  uint32_t set = 0;
  uint32_t binding = 0;
  uint32_t element = 0;
  VkDescriptorType type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
  bool read_only = false;
};

class Pipeline {
 public:
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  VkPipeline handle() const { return pipeline_; }
  VkPipelineLayout layout() const { return layout_; }
  const std::vector<VkDescriptorSetLayout>& set_layouts() const { return set_layouts_; }
  const std::vector<DescriptorSlot>& slots() const { return slots_; }  // one per buffer argument
  const ShaderEntry& entry() const { return entry_; }
  LocalSize local_size() const;

 private:
  friend class LoadedModule;
  explicit Pipeline(Device* device) : device_(device) {}

  Device* const device_;
  ShaderEntry entry_;
  std::vector<DescriptorSlot> slots_;
  std::vector<VkDescriptorSetLayout> set_layouts_;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipeline pipeline_ = VK_NULL_HANDLE;
};

class LoadedModule {
 public:
  // `cache` is what CacheData answered for the same architecture, or empty. A shader that needs
  // what the device does not have is UNSUPPORTED_ARCHITECTURE.
  static absl::StatusOr<std::unique_ptr<LoadedModule>> Load(Device* device, SpirvModule module,
                                                            std::string_view cache);
  ~LoadedModule();
  LoadedModule(const LoadedModule&) = delete;
  LoadedModule& operator=(const LoadedModule&) = delete;

  const SpirvModule& spirv() const { return spirv_; }

  // Makes the pipeline of `entry`. `local` sets those extents of the local size that the shader
  // leaves free; the others it does not change. `jit_microseconds` is increased by the time the driver took unless it
  // says that the pipeline cache had everything.
  absl::StatusOr<std::shared_ptr<const Pipeline>> MakePipeline(const std::string& entry,
                                                               SpecializationValues values,
                                                               std::optional<LocalSize> local,
                                                               uint64_t* jit_microseconds) const;

  // What the driver compiled so far, for `cache` of a later Load. Empty when the driver keeps
  // nothing beyond the header.
  absl::StatusOr<std::string> CacheData() const;

 private:
  LoadedModule(Device* device, SpirvModule module)
      : device_(device), spirv_(std::move(module)), constants_(SpecConstantsOf(spirv_)) {}

  Device* const device_;
  SpirvModule spirv_;
  std::vector<SpecConstant> constants_;
  VkShaderModule module_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
};

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_PIPELINE_H_
