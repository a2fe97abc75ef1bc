// One VkInstance and the physical devices it shows.
//
// Threads: immutable once made; any thread. Ownership: whoever made it; devices made from it go
// first.

#ifndef KCACHE_BACKENDS_VULKAN_INSTANCE_H_
#define KCACHE_BACKENDS_VULKAN_INSTANCE_H_

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/vulkan/vulkan_api.h"

namespace kcache::backend::vulkan {

struct InstanceOptions {
  std::string library = "libvulkan.so.1";
  // Turns the Khronos validation layer on; BACKEND_UNAVAILABLE if it is not installed. Gets every
  // warning and error of layer and driver, from any thread.
  std::function<void(std::string_view)> on_validation_message;
};

class Instance {
 public:
  static absl::StatusOr<std::unique_ptr<Instance>> Create(const InstanceOptions& options);
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const InstanceTable& table() const { return table_; }

  // Those that can compute and speak Vulkan 1.2 or later, in the loader's order; a device's number
  // in this list is its index. `rejected` gets "name: why" for the others.
  absl::StatusOr<std::vector<VkPhysicalDevice>> ComputeDevices(
      std::vector<std::string>* rejected = nullptr) const;

 private:
  Instance() = default;

  std::function<void(std::string_view)> on_message_;
  VkInstance instance_ = VK_NULL_HANDLE;
  InstanceTable table_;
  VkDebugUtilsMessengerEXT messenger_ = VK_NULL_HANDLE;
};

// The queue family that kernels run on: one that computes and does not draw if there is one, since
// that does not share its hardware queue with a desktop. -1: none.
int ComputeQueueFamily(const InstanceTable& table, VkPhysicalDevice device, uint32_t* queue_count);

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_INSTANCE_H_
