#include "backends/vulkan/vulkan_status.h"

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::vulkan {

std::string ResultName(VkResult result) {
  switch (result) {
#define KCACHE_VULKAN_CASE(name) \
  case name:                     \
    return #name;
    KCACHE_VULKAN_CASE(VK_SUCCESS)
    KCACHE_VULKAN_CASE(VK_NOT_READY)
    KCACHE_VULKAN_CASE(VK_TIMEOUT)
    KCACHE_VULKAN_CASE(VK_INCOMPLETE)
    KCACHE_VULKAN_CASE(VK_ERROR_OUT_OF_HOST_MEMORY)
    KCACHE_VULKAN_CASE(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    KCACHE_VULKAN_CASE(VK_ERROR_INITIALIZATION_FAILED)
    KCACHE_VULKAN_CASE(VK_ERROR_DEVICE_LOST)
    KCACHE_VULKAN_CASE(VK_ERROR_MEMORY_MAP_FAILED)
    KCACHE_VULKAN_CASE(VK_ERROR_LAYER_NOT_PRESENT)
    KCACHE_VULKAN_CASE(VK_ERROR_EXTENSION_NOT_PRESENT)
    KCACHE_VULKAN_CASE(VK_ERROR_FEATURE_NOT_PRESENT)
    KCACHE_VULKAN_CASE(VK_ERROR_INCOMPATIBLE_DRIVER)
    KCACHE_VULKAN_CASE(VK_ERROR_TOO_MANY_OBJECTS)
    KCACHE_VULKAN_CASE(VK_ERROR_FRAGMENTED_POOL)
    KCACHE_VULKAN_CASE(VK_ERROR_OUT_OF_POOL_MEMORY)
    KCACHE_VULKAN_CASE(VK_ERROR_FRAGMENTATION)
    KCACHE_VULKAN_CASE(VK_ERROR_UNKNOWN)
    KCACHE_VULKAN_CASE(VK_ERROR_INVALID_SHADER_NV)
    KCACHE_VULKAN_CASE(VK_ERROR_NOT_PERMITTED_KHR)
#undef KCACHE_VULKAN_CASE
    default:
      return absl::StrCat("VkResult ", static_cast<int>(result));
  }
}

absl::Status ResultStatus(VkResult result, std::string_view what) {
  if (result == VK_SUCCESS) return absl::OkStatus();
  v1::ErrorReason reason = v1::INTERNAL;
  switch (result) {
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
    case VK_ERROR_OUT_OF_HOST_MEMORY:
    case VK_ERROR_TOO_MANY_OBJECTS:
      reason = v1::OUT_OF_DEVICE_MEMORY;
      break;
    case VK_ERROR_DEVICE_LOST:
      reason = v1::DEVICE_LOST;
      break;
    case VK_ERROR_INITIALIZATION_FAILED:
    case VK_ERROR_INCOMPATIBLE_DRIVER:
    case VK_ERROR_LAYER_NOT_PRESENT:
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      reason = v1::BACKEND_UNAVAILABLE;
      break;
    default:
      break;
  }
  return MakeError(reason, absl::StrCat(ResultName(result), " while ", AbslView(what)));
}

}  // namespace kcache::backend::vulkan
