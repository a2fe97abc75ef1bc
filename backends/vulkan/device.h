// A VkDevice for computing: with every shader feature the hardware offers, and its queues.
//
// Threads: immutable once open, but vkQueueSubmit needs the queue for itself: Submit sees to that.
// Ownership: everything made from a Device is destroyed before it.

#ifndef KCACHE_BACKENDS_VULKAN_DEVICE_H_
#define KCACHE_BACKENDS_VULKAN_DEVICE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/vulkan/physical_device.h"
#include "backends/vulkan/spirv_module.h"
#include "backends/vulkan/vulkan_api.h"
#include "contract/mutex.h"

namespace kcache::backend::vulkan {

// What is enabled, as far as a shader can need it.
struct EnabledFeatures {
  VkPhysicalDeviceFeatures core{};
  VkPhysicalDeviceVulkan11Features v11{};
  VkPhysicalDeviceVulkan12Features v12{};
  VkPhysicalDeviceVulkan13Features v13{};
  VkPhysicalDeviceShaderAtomicFloatFeaturesEXT atomic_float{};
  bool maintenance4 = false;
  bool pipeline_creation_feedback = false;
};

class Device {
 public:
  static absl::StatusOr<std::unique_ptr<Device>> Open(PhysicalDevice physical);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const DeviceTable& vk() const { return table_; }
  VkDevice handle() const { return device_; }
  const PhysicalDevice& physical() const { return physical_; }
  const EnabledFeatures& features() const { return features_; }
  uint32_t queue_family() const { return queue_family_; }

  // Hardware queues. Several users of one number share it.
  uint32_t queue_count() const { return static_cast<uint32_t>(queues_.size()); }
  absl::Status Submit(uint32_t queue, const VkSubmitInfo& submit);

  // UNSUPPORTED_ARCHITECTURE naming the first capability of `module` that the device has not.
  absl::Status CheckCapabilities(const SpirvModule& module) const;

  // The first memory type among `type_bits` with all of `required`, those with `preferred` first.
  // Nothing fits: OUT_OF_DEVICE_MEMORY.
  absl::StatusOr<uint32_t> MemoryType(uint32_t type_bits, VkMemoryPropertyFlags required,
                                      VkMemoryPropertyFlags preferred) const;

 private:
  struct SharedQueue {
    Mutex mutex;
    VkQueue queue = VK_NULL_HANDLE;
  };

  explicit Device(PhysicalDevice physical) : physical_(std::move(physical)) {}

  PhysicalDevice physical_;
  EnabledFeatures features_;
  VkDevice device_ = VK_NULL_HANDLE;
  DeviceTable table_;
  uint32_t queue_family_ = 0;
  std::vector<std::unique_ptr<SharedQueue>> queues_;
};

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_DEVICE_H_
