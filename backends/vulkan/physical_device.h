// What a Vulkan physical device says of itself.
//
// Threads: plain values. Ownership: nothing; a PhysicalDevice refers to its Instance, which must
// outlive what is made from it.

#ifndef KCACHE_BACKENDS_VULKAN_PHYSICAL_DEVICE_H_
#define KCACHE_BACKENDS_VULKAN_PHYSICAL_DEVICE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/vulkan/instance.h"
#include "backends/vulkan/vulkan_api.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::vulkan {

struct PhysicalDevice {
  const Instance* instance = nullptr;
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties{};
  VkPhysicalDeviceIDProperties ids{};
  VkPhysicalDeviceDriverProperties driver{};
  VkPhysicalDeviceSubgroupProperties subgroup{};
  VkPhysicalDeviceMaintenance3Properties maintenance3{};
  VkPhysicalDeviceMemoryProperties memory{};
  std::set<std::string> extensions;
  std::string pci_address;                // "0000:0a:00.0"; empty: not told
  std::vector<std::string> device_nodes;  // "/dev/dri/renderD128"; empty: has none

  const VkPhysicalDeviceLimits& limits() const { return properties.limits; }
  bool has(const char* extension) const { return extensions.count(extension) != 0; }
  bool is_cpu() const { return properties.deviceType == VK_PHYSICAL_DEVICE_TYPE_CPU; }

  // "6d657361-3232-2e33-2e36-000000000000": the card, equal to what the vendor's other APIs say.
  std::string uuid() const;
  // The card and the driver serving it: what a host is told to open, since indices depend on what
  // else a process sees.
  std::string identity() const;
  // "spirv-" and the pipeline cache's UUID: binaries made for one value fit every device that has
  // it.
  std::string architecture() const;
};

PhysicalDevice DescribePhysicalDevice(const Instance& instance, VkPhysicalDevice handle);

// The device for `index`; with `identity`, the one that has it, wherever it is in the list.
// UNKNOWN_DEVICE, saying what there is.
absl::StatusOr<PhysicalDevice> FindPhysicalDevice(const Instance& instance, uint32_t index,
                                                  const std::string& identity = {});

// Without index, languages and compiler: those are the family's.
v1::DeviceInfo DescribeDevice(const PhysicalDevice& device);

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_PHYSICAL_DEVICE_H_
