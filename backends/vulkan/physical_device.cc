#include "backends/vulkan/physical_device.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/vulkan/vulkan_status.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::vulkan {
namespace {

constexpr uint32_t kNvidia = 0x10de;

std::string FormatUuid(const uint8_t (&bytes)[VK_UUID_SIZE]) {
  const std::string hex = ToHex({reinterpret_cast<const char*>(bytes), VK_UUID_SIZE});
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

std::string VendorName(uint32_t vendor) {
  switch (vendor) {
    case 0x1002:
      return "AMD";
    case 0x10005:
      return "Mesa";
    case kNvidia:
      return "NVIDIA";
    case 0x13b5:
      return "Arm";
    case 0x5143:
      return "Qualcomm";
    case 0x8086:
      return "Intel";
    default:
      return absl::StrFormat("vendor 0x%04x", vendor);
  }
}

// The node of a character device, looked for where DRM puts it.
void AddDrmNode(int64_t major, int64_t minor, std::vector<std::string>* nodes) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/dri", error)) {
    struct stat status {};
    if (stat(entry.path().c_str(), &status) != 0 || !S_ISCHR(status.st_mode)) continue;
    if (gnu_dev_major(status.st_rdev) == static_cast<unsigned>(major) &&
        gnu_dev_minor(status.st_rdev) == static_cast<unsigned>(minor)) {
      nodes->push_back(entry.path().string());
    }
  }
}

// NVIDIA's nodes are numbered by the kernel module, not in the order of enumeration.
void AddNvidiaNodes(const std::string& pci_address, std::vector<std::string>* nodes) {
  std::ifstream information(absl::StrCat("/proc/driver/nvidia/gpus/", pci_address, "/information"));
  std::string line;
  constexpr std::string_view kMinor = "Device Minor:";
  while (std::getline(information, line)) {
    if (!line.starts_with(kMinor)) continue;
    const size_t digits = line.find_first_of("0123456789");
    if (digits != std::string::npos) nodes->push_back("/dev/nvidia" + line.substr(digits));
  }
  for (const char* shared : {"/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-modeset"}) {
    if (access(shared, F_OK) == 0) nodes->push_back(shared);
  }
}

std::set<std::string> ExtensionsOf(const InstanceTable& table, VkPhysicalDevice handle) {
  uint32_t count = 0;
  std::set<std::string> names;
  if (table.EnumerateDeviceExtensionProperties(handle, nullptr, &count, nullptr) != VK_SUCCESS) {
    return names;
  }
  std::vector<VkExtensionProperties> extensions(count);
  if (table.EnumerateDeviceExtensionProperties(handle, nullptr, &count, extensions.data()) !=
      VK_SUCCESS) {
    return names;
  }
  for (uint32_t i = 0; i < count; ++i) names.insert(extensions[i].extensionName);
  return names;
}

}  // namespace

std::string PhysicalDevice::uuid() const { return FormatUuid(ids.deviceUUID); }

std::string PhysicalDevice::identity() const {
  return absl::StrCat(FormatUuid(ids.deviceUUID), "/", FormatUuid(ids.driverUUID));
}

std::string PhysicalDevice::architecture() const {
  return absl::StrCat(
      "spirv-", ToHex({reinterpret_cast<const char*>(properties.pipelineCacheUUID), VK_UUID_SIZE}));
}

PhysicalDevice DescribePhysicalDevice(const Instance& instance, VkPhysicalDevice handle) {
  const InstanceTable& table = instance.table();
  PhysicalDevice device;
  device.instance = &instance;
  device.handle = handle;
  device.extensions = ExtensionsOf(table, handle);

  device.ids =
      Structure<VkPhysicalDeviceIDProperties>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_ID_PROPERTIES);
  device.driver = Structure<VkPhysicalDeviceDriverProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES);
  device.subgroup = Structure<VkPhysicalDeviceSubgroupProperties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SUBGROUP_PROPERTIES);
  device.maintenance3 = Structure<VkPhysicalDeviceMaintenance3Properties>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MAINTENANCE_3_PROPERTIES);
  auto pci = Structure<VkPhysicalDevicePCIBusInfoPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PCI_BUS_INFO_PROPERTIES_EXT);
  auto drm = Structure<VkPhysicalDeviceDrmPropertiesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRM_PROPERTIES_EXT);
  auto properties =
      Structure<VkPhysicalDeviceProperties2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2);
  device.ids.pNext = &device.driver;
  device.driver.pNext = &device.subgroup;
  device.subgroup.pNext = &device.maintenance3;
  void** last = &device.maintenance3.pNext;
  if (device.has(VK_EXT_PCI_BUS_INFO_EXTENSION_NAME)) {
    *last = &pci;
    last = &pci.pNext;
  }
  if (device.has(VK_EXT_PHYSICAL_DEVICE_DRM_EXTENSION_NAME)) *last = &drm;
  properties.pNext = &device.ids;
  table.GetPhysicalDeviceProperties2(handle, &properties);
  device.properties = properties.properties;
  // The chain pointed into this very object and its locals.
  device.ids.pNext = device.driver.pNext = device.subgroup.pNext = device.maintenance3.pNext =
      nullptr;
  table.GetPhysicalDeviceMemoryProperties(handle, &device.memory);

  if (device.has(VK_EXT_PCI_BUS_INFO_EXTENSION_NAME)) {
    device.pci_address = absl::StrFormat("%04x:%02x:%02x.%x", pci.pciDomain, pci.pciBus,
                                         pci.pciDevice, pci.pciFunction);
  }
  if (drm.hasPrimary) AddDrmNode(drm.primaryMajor, drm.primaryMinor, &device.device_nodes);
  if (drm.hasRender) AddDrmNode(drm.renderMajor, drm.renderMinor, &device.device_nodes);
  if (device.properties.vendorID == kNvidia && !device.pci_address.empty()) {
    AddNvidiaNodes(device.pci_address, &device.device_nodes);
  }
  return device;
}

absl::StatusOr<PhysicalDevice> FindPhysicalDevice(const Instance& instance, uint32_t index,
                                                  const std::string& identity) {
  auto handles = instance.ComputeDevices();
  if (!handles.ok()) return handles.status();
  std::vector<std::string> found;
  for (size_t i = 0; i < handles->size(); ++i) {
    PhysicalDevice device = DescribePhysicalDevice(instance, (*handles)[i]);
    if (identity.empty() ? i == index : device.identity() == identity) return device;
    found.push_back(
        absl::StrCat(i, " (", device.properties.deviceName, ", ", device.identity(), ")"));
  }
  return MakeError(
      v1::UNKNOWN_DEVICE,
      absl::StrCat("no Vulkan device ", identity.empty() ? absl::StrCat(index) : identity,
                   "; there are: ", found.empty() ? "none" : absl::StrJoin(found, ", ")));
}

v1::DeviceInfo DescribeDevice(const PhysicalDevice& device) {
  v1::DeviceInfo info;
  info.set_name(ToValidUtf8(device.properties.deviceName));
  info.set_vendor(VendorName(device.properties.vendorID));
  info.set_uuid(device.uuid());
  info.set_pci_address(device.pci_address);
  info.set_architecture(device.architecture());
  info.set_driver_version(
      ToValidUtf8(absl::StrCat(device.driver.driverName, " ", device.driver.driverInfo, ", Vulkan ",
                               VK_API_VERSION_MAJOR(device.properties.apiVersion), ".",
                               VK_API_VERSION_MINOR(device.properties.apiVersion), ".",
                               VK_API_VERSION_PATCH(device.properties.apiVersion))));
  info.set_state(v1::DEVICE_UP);
  info.set_is_cpu(device.is_cpu());
  for (const std::string& node : device.device_nodes) info.add_device_nodes(node);

  const VkPhysicalDeviceLimits& limits = device.limits();
  v1::DeviceLimits* out = info.mutable_limits();
  for (uint32_t i = 0; i < device.memory.memoryHeapCount; ++i) {
    const VkMemoryHeap& heap = device.memory.memoryHeaps[i];
    if ((heap.flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0) {
      out->set_memory_bytes(std::max<uint64_t>(out->memory_bytes(), heap.size));
    }
  }
  out->set_max_allocation_bytes(
      std::min<uint64_t>(device.maintenance3.maxMemoryAllocationSize, out->memory_bytes()));
  out->set_local_memory_bytes(limits.maxComputeSharedMemorySize);
  out->set_max_local_size(limits.maxComputeWorkGroupInvocations);
  out->mutable_max_local_dims()->set_x(limits.maxComputeWorkGroupSize[0]);
  out->mutable_max_local_dims()->set_y(limits.maxComputeWorkGroupSize[1]);
  out->mutable_max_local_dims()->set_z(limits.maxComputeWorkGroupSize[2]);
  out->set_max_grid_x(limits.maxComputeWorkGroupCount[0]);
  out->set_max_grid_y(limits.maxComputeWorkGroupCount[1]);
  out->set_max_grid_z(limits.maxComputeWorkGroupCount[2]);
  out->set_push_constant_bytes(limits.maxPushConstantsSize);
  out->set_buffer_offset_alignment(
      static_cast<uint32_t>(limits.minStorageBufferOffsetAlignment));
  return info;
}

}  // namespace kcache::backend::vulkan
