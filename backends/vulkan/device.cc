#include "backends/vulkan/device.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/vulkan/vulkan_status.h"
#include "contract/error_reason.h"

namespace kcache::backend::vulkan {
namespace {

// More would only cost memory: a session has 16 queues by default.
constexpr uint32_t kMaxHardwareQueues = 8;

// Everything the device offers, except what changes how all shaders run (robustness), and what
// belongs to images, capture and protected memory, which kcache does not use.
void SelectFeatures(const PhysicalDevice& physical, EnabledFeatures* features,
                    VkPhysicalDeviceFeatures2* chain, std::vector<const char*>* extensions) {
  const bool has_13 = physical.properties.apiVersion >= VK_API_VERSION_1_3;
  features->v11 = Structure<VkPhysicalDeviceVulkan11Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
  features->v12 = Structure<VkPhysicalDeviceVulkan12Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  features->v13 = Structure<VkPhysicalDeviceVulkan13Features>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  features->atomic_float = Structure<VkPhysicalDeviceShaderAtomicFloatFeaturesEXT>(
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT);
  chain->pNext = &features->v11;
  features->v11.pNext = &features->v12;
  void** last = &features->v12.pNext;
  if (has_13) {
    *last = &features->v13;
    last = &features->v13.pNext;
  }
  if (physical.has(VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME)) {
    extensions->push_back(VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
    *last = &features->atomic_float;
  }
  physical.instance->table().GetPhysicalDeviceFeatures2(physical.handle, chain);

  VkPhysicalDeviceFeatures& core = chain->features;
  core.robustBufferAccess = VK_FALSE;
  core.sparseBinding = VK_FALSE;
  core.sparseResidencyBuffer = VK_FALSE;
  core.sparseResidencyImage2D = VK_FALSE;
  core.sparseResidencyImage3D = VK_FALSE;
  core.sparseResidency2Samples = VK_FALSE;
  core.sparseResidency4Samples = VK_FALSE;
  core.sparseResidency8Samples = VK_FALSE;
  core.sparseResidency16Samples = VK_FALSE;
  core.sparseResidencyAliased = VK_FALSE;
  features->v11.protectedMemory = VK_FALSE;
  features->v12.bufferDeviceAddressCaptureReplay = VK_FALSE;
  features->v12.bufferDeviceAddressMultiDevice = VK_FALSE;
  features->v13.robustImageAccess = VK_FALSE;
  features->v13.privateData = VK_FALSE;
  features->core = core;
  features->maintenance4 = has_13 && features->v13.maintenance4 == VK_TRUE;
  features->pipeline_creation_feedback =
      has_13 || physical.has(VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME);
  if (!has_13 && features->pipeline_creation_feedback) {
    extensions->push_back(VK_EXT_PIPELINE_CREATION_FEEDBACK_EXTENSION_NAME);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<Device>> Device::Open(PhysicalDevice physical) {
  auto device = std::unique_ptr<Device>(new Device(std::move(physical)));
  const PhysicalDevice& from = device->physical_;
  const InstanceTable& table = from.instance->table();

  std::vector<const char*> extensions;
  auto features =
      Structure<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
  SelectFeatures(from, &device->features_, &features, &extensions);

  uint32_t available = 0;
  const int family = ComputeQueueFamily(table, from.handle, &available);
  if (family < 0) {
    return MakeError(v1::BACKEND_UNAVAILABLE,
                     absl::StrCat(from.properties.deviceName, " has no compute queue"));
  }
  device->queue_family_ = static_cast<uint32_t>(family);
  const uint32_t count = std::min(available, kMaxHardwareQueues);
  const std::vector<float> priorities(count, 1.0f);
  auto queues = Structure<VkDeviceQueueCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO);
  queues.queueFamilyIndex = device->queue_family_;
  queues.queueCount = count;
  queues.pQueuePriorities = priorities.data();

  auto create = Structure<VkDeviceCreateInfo>(VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO);
  create.pNext = &features;
  create.queueCreateInfoCount = 1;
  create.pQueueCreateInfos = &queues;
  create.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  create.ppEnabledExtensionNames = extensions.data();
  const VkResult result = table.CreateDevice(from.handle, &create, nullptr, &device->device_);
  device->features_.v11.pNext = device->features_.v12.pNext = device->features_.v13.pNext = nullptr;
  if (result != VK_SUCCESS) {
    device->device_ = VK_NULL_HANDLE;
    return ResultStatus(result, absl::StrCat("opening ", from.properties.deviceName));
  }
  auto functions = LoadDeviceTable(table, device->device_);
  if (!functions.ok()) return functions.status();
  device->table_ = *functions;
  for (uint32_t i = 0; i < count; ++i) {
    auto queue = std::make_unique<SharedQueue>();
    device->table_.GetDeviceQueue(device->device_, device->queue_family_, i, &queue->queue);
    device->queues_.push_back(std::move(queue));
  }
  return device;
}

Device::~Device() {
  if (device_ != VK_NULL_HANDLE && table_.DestroyDevice != nullptr) {
    table_.DestroyDevice(device_, nullptr);
  }
}

absl::Status Device::Submit(uint32_t queue, const VkSubmitInfo& submit) {
  SharedQueue& shared = *queues_[queue % queues_.size()];
  // Held across the call because the call itself demands it: VkQueue is externally synchronized.
  MutexLock lock(&shared.mutex);
  return ResultStatus(table_.QueueSubmit(shared.queue, 1, &submit, VK_NULL_HANDLE),
                      "submitting commands");
}

absl::StatusOr<uint32_t> Device::MemoryType(uint32_t type_bits, VkMemoryPropertyFlags required,
                                            VkMemoryPropertyFlags preferred) const {
  int fallback = -1;
  for (uint32_t i = 0; i < physical_.memory.memoryTypeCount; ++i) {
    const VkMemoryPropertyFlags flags = physical_.memory.memoryTypes[i].propertyFlags;
    if ((type_bits & (1u << i)) == 0 || (flags & required) != required) continue;
    if ((flags & preferred) == preferred) return i;
    if (fallback < 0) fallback = static_cast<int>(i);
  }
  if (fallback >= 0) return static_cast<uint32_t>(fallback);
  return MakeError(v1::OUT_OF_DEVICE_MEMORY,
                   absl::StrCat("no memory type of ", physical_.properties.deviceName,
                                " has the properties ", absl::Hex(required)));
}

}  // namespace kcache::backend::vulkan
