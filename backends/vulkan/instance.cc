#include "backends/vulkan/instance.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/vulkan/vulkan_status.h"
#include "contract/error_reason.h"

namespace kcache::backend::vulkan {
namespace {

constexpr char kValidationLayer[] = "VK_LAYER_KHRONOS_validation";

VKAPI_ATTR VkBool32 VKAPI_CALL OnMessage(VkDebugUtilsMessageSeverityFlagBitsEXT,
                                         VkDebugUtilsMessageTypeFlagsEXT,
                                         const VkDebugUtilsMessengerCallbackDataEXT* data,
                                         void* user) {
  const auto& on_message = *static_cast<std::function<void(std::string_view)>*>(user);
  on_message(data->pMessage != nullptr ? data->pMessage : "");
  return VK_FALSE;
}

absl::Status RequireLayer(const GlobalTable& global, const char* name) {
  uint32_t count = 0;
  VkResult result = global.EnumerateInstanceLayerProperties(&count, nullptr);
  if (result != VK_SUCCESS) return ResultStatus(result, "listing layers");
  std::vector<VkLayerProperties> layers(count);
  result = global.EnumerateInstanceLayerProperties(&count, layers.data());
  if (result != VK_SUCCESS) return ResultStatus(result, "listing layers");
  for (const VkLayerProperties& layer : layers) {
    if (std::strcmp(layer.layerName, name) == 0) return absl::OkStatus();
  }
  return MakeError(v1::BACKEND_UNAVAILABLE, absl::StrCat("layer ", name, " is not installed"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<Instance>> Instance::Create(const InstanceOptions& options) {
  auto global = LoadVulkan(options.library);
  if (!global.ok()) return global.status();

  uint32_t version = VK_API_VERSION_1_0;
  VkResult result = (*global)->EnumerateInstanceVersion(&version);
  if (result != VK_SUCCESS) return ResultStatus(result, "asking the Vulkan loader's version");
  if (version < VK_API_VERSION_1_2) {
    return MakeError(v1::BACKEND_UNAVAILABLE,
                     absl::StrCat("the Vulkan loader speaks ", VK_API_VERSION_MAJOR(version), ".",
                                  VK_API_VERSION_MINOR(version), ", 1.2 is needed"));
  }

  auto instance = std::unique_ptr<Instance>(new Instance());
  instance->on_message_ = options.on_validation_message;
  const bool validate = static_cast<bool>(instance->on_message_);

  auto application = Structure<VkApplicationInfo>(VK_STRUCTURE_TYPE_APPLICATION_INFO);
  application.pApplicationName = "kcache";
  application.pEngineName = "kcache";
  application.apiVersion = std::min<uint32_t>(version, VK_API_VERSION_1_3);

  auto messenger = Structure<VkDebugUtilsMessengerCreateInfoEXT>(
      VK_STRUCTURE_TYPE_DEBUG_UTILS_MESSENGER_CREATE_INFO_EXT);
  messenger.messageSeverity = VK_DEBUG_UTILS_MESSAGE_SEVERITY_WARNING_BIT_EXT |
                              VK_DEBUG_UTILS_MESSAGE_SEVERITY_ERROR_BIT_EXT;
  messenger.messageType =
      VK_DEBUG_UTILS_MESSAGE_TYPE_GENERAL_BIT_EXT | VK_DEBUG_UTILS_MESSAGE_TYPE_VALIDATION_BIT_EXT;
  messenger.pfnUserCallback = OnMessage;
  messenger.pUserData = &instance->on_message_;

  auto create = Structure<VkInstanceCreateInfo>(VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO);
  create.pApplicationInfo = &application;
  const char* layer = kValidationLayer;
  const char* extension = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
  if (validate) {
    absl::Status found = RequireLayer(**global, kValidationLayer);
    if (!found.ok()) return found;
    create.enabledLayerCount = 1;
    create.ppEnabledLayerNames = &layer;
    create.enabledExtensionCount = 1;
    create.ppEnabledExtensionNames = &extension;
    create.pNext = &messenger;
  }
  result = (*global)->CreateInstance(&create, nullptr, &instance->instance_);
  if (result != VK_SUCCESS) {
    instance->instance_ = VK_NULL_HANDLE;
    return ResultStatus(result, "making a Vulkan instance (is a driver installed?)");
  }
  auto table = LoadInstanceTable(**global, instance->instance_, validate);
  if (!table.ok()) return table.status();
  instance->table_ = *table;
  if (validate) {
    result = instance->table_.CreateDebugUtilsMessengerEXT(instance->instance_, &messenger, nullptr,
                                                           &instance->messenger_);
    if (result != VK_SUCCESS) return ResultStatus(result, "making the debug messenger");
  }
  return instance;
}

Instance::~Instance() {
  if (messenger_ != VK_NULL_HANDLE) {
    table_.DestroyDebugUtilsMessengerEXT(instance_, messenger_, nullptr);
  }
  // Without a table there is no way to destroy it; the process is about to give up then.
  if (instance_ != VK_NULL_HANDLE && table_.DestroyInstance != nullptr) {
    table_.DestroyInstance(instance_, nullptr);
  }
}

absl::StatusOr<std::vector<VkPhysicalDevice>> Instance::ComputeDevices(
    std::vector<std::string>* rejected) const {
  uint32_t count = 0;
  VkResult result = table_.EnumeratePhysicalDevices(instance_, &count, nullptr);
  if (result != VK_SUCCESS) return ResultStatus(result, "counting Vulkan devices");
  std::vector<VkPhysicalDevice> all(count);
  if (count > 0) {
    result = table_.EnumeratePhysicalDevices(instance_, &count, all.data());
    if (result != VK_SUCCESS) return ResultStatus(result, "listing Vulkan devices");
    all.resize(count);
  }

  std::vector<VkPhysicalDevice> usable;
  for (VkPhysicalDevice device : all) {
    VkPhysicalDeviceProperties properties;
    table_.GetPhysicalDeviceProperties(device, &properties);
    std::string why;
    uint32_t queues = 0;
    if (properties.apiVersion < VK_API_VERSION_1_2) {
      why = absl::StrCat("speaks Vulkan ", VK_API_VERSION_MAJOR(properties.apiVersion), ".",
                         VK_API_VERSION_MINOR(properties.apiVersion), ", 1.2 is needed");
    } else if (ComputeQueueFamily(table_, device, &queues) < 0) {
      why = "has no compute queue";
    } else {
      auto timeline = Structure<VkPhysicalDeviceTimelineSemaphoreFeatures>(
          VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES);
      auto features =
          Structure<VkPhysicalDeviceFeatures2>(VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2);
      features.pNext = &timeline;
      table_.GetPhysicalDeviceFeatures2(device, &features);
      if (timeline.timelineSemaphore == VK_FALSE) why = "has no timeline semaphores";
    }
    if (why.empty()) {
      usable.push_back(device);
    } else if (rejected != nullptr) {
      rejected->push_back(absl::StrCat(properties.deviceName, ": ", why));
    }
  }
  return usable;
}

int ComputeQueueFamily(const InstanceTable& table, VkPhysicalDevice device, uint32_t* queue_count) {
  uint32_t count = 0;
  table.GetPhysicalDeviceQueueFamilyProperties(device, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  table.GetPhysicalDeviceQueueFamilyProperties(device, &count, families.data());
  int found = -1;
  for (uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) == 0 || families[i].queueCount == 0) {
      continue;
    }
    const bool draws = (families[i].queueFlags & VK_QUEUE_GRAPHICS_BIT) != 0;
    if (found < 0 || !draws) {
      found = static_cast<int>(i);
      *queue_count = families[i].queueCount;
      if (!draws) break;
    }
  }
  return found;
}

}  // namespace kcache::backend::vulkan
