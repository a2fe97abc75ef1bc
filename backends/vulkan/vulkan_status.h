// VkResult as absl::Status with a typed reason.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_BACKENDS_VULKAN_VULKAN_STATUS_H_
#define KCACHE_BACKENDS_VULKAN_VULKAN_STATUS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "backends/vulkan/vulkan_api.h"

namespace kcache::backend::vulkan {

// "VK_ERROR_DEVICE_LOST", or "VkResult -1234" for one this build does not know.
std::string ResultName(VkResult result);

// OK for VK_SUCCESS. Memory that ran out is OUT_OF_DEVICE_MEMORY, a lost device DEVICE_LOST, a
// driver that cannot be used BACKEND_UNAVAILABLE, everything else INTERNAL. "while …" says what
// was being done: "vkCreateBuffer of 4096 bytes".
absl::Status ResultStatus(VkResult result, std::string_view what);

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_VULKAN_STATUS_H_
