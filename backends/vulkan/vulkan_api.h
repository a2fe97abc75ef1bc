// The Vulkan entry points this backend uses, found at run time.
//
// The loader (libvulkan.so.1) is opened with dlopen, so that a node without it lists Vulkan as
// unavailable instead of failing to start. Each table is filled through vkGetInstanceProcAddr or
// vkGetDeviceProcAddr, and every member named below is there once the table is: a driver that lacks
// one fails the load with its name. The loader is never closed: drivers run code at process exit.
//
// Threads: tables are immutable once filled. Ownership: GlobalTable lives as long as the process.

#ifndef KCACHE_BACKENDS_VULKAN_VULKAN_API_H_
#define KCACHE_BACKENDS_VULKAN_VULKAN_API_H_

#define VK_NO_PROTOTYPES 1
#include <vulkan/vulkan.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kcache::backend::vulkan {

// A Vulkan structure of its type, all else zero.
template <class T>
T Structure(VkStructureType type) {
  T structure{};
  structure.sType = type;
  return structure;
}

#define KCACHE_VULKAN_GLOBAL_FUNCTIONS(F) \
  F(CreateInstance)                       \
  F(EnumerateInstanceExtensionProperties) \
  F(EnumerateInstanceLayerProperties)     \
  F(EnumerateInstanceVersion)

#define KCACHE_VULKAN_INSTANCE_FUNCTIONS(F) \
  F(CreateDevice)                           \
  F(DestroyInstance)                        \
  F(EnumerateDeviceExtensionProperties)     \
  F(EnumeratePhysicalDevices)               \
  F(GetDeviceProcAddr)                      \
  F(GetPhysicalDeviceFeatures2)             \
  F(GetPhysicalDeviceMemoryProperties)      \
  F(GetPhysicalDeviceProperties)            \
  F(GetPhysicalDeviceProperties2)           \
  F(GetPhysicalDeviceQueueFamilyProperties)

// Of VK_EXT_debug_utils; null unless the instance was made with a messenger.
#define KCACHE_VULKAN_DEBUG_FUNCTIONS(F) \
  F(CreateDebugUtilsMessengerEXT)        \
  F(DestroyDebugUtilsMessengerEXT)

#define KCACHE_VULKAN_DEVICE_FUNCTIONS(F) \
  F(AllocateCommandBuffers)               \
  F(AllocateDescriptorSets)               \
  F(AllocateMemory)                       \
  F(BeginCommandBuffer)                   \
  F(BindBufferMemory)                     \
  F(CmdBindDescriptorSets)                \
  F(CmdBindPipeline)                      \
  F(CmdCopyBuffer)                        \
  F(CmdDispatch)                          \
  F(CmdFillBuffer)                        \
  F(CmdPipelineBarrier)                   \
  F(CmdPushConstants)                     \
  F(CmdUpdateBuffer)                      \
  F(CreateBuffer)                         \
  F(CreateCommandPool)                    \
  F(CreateComputePipelines)               \
  F(CreateDescriptorPool)                 \
  F(CreateDescriptorSetLayout)            \
  F(CreatePipelineCache)                  \
  F(CreatePipelineLayout)                 \
  F(CreateSemaphore)                      \
  F(CreateShaderModule)                   \
  F(DestroyBuffer)                        \
  F(DestroyCommandPool)                   \
  F(DestroyDescriptorPool)                \
  F(DestroyDescriptorSetLayout)           \
  F(DestroyDevice)                        \
  F(DestroyPipeline)                      \
  F(DestroyPipelineCache)                 \
  F(DestroyPipelineLayout)                \
  F(DestroySemaphore)                     \
  F(DestroyShaderModule)                  \
  F(DeviceWaitIdle)                       \
  F(EndCommandBuffer)                     \
  F(FreeMemory)                           \
  F(GetBufferMemoryRequirements)          \
  F(GetDeviceQueue)                       \
  F(GetPipelineCacheData)                 \
  F(GetSemaphoreCounterValue)             \
  F(MapMemory)                            \
  F(QueueSubmit)                          \
  F(ResetCommandPool)                     \
  F(ResetDescriptorPool)                  \
  F(UpdateDescriptorSets)                 \
  F(WaitSemaphores)

#define KCACHE_VULKAN_MEMBER(name) PFN_vk##name name = nullptr;

struct GlobalTable {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
  KCACHE_VULKAN_GLOBAL_FUNCTIONS(KCACHE_VULKAN_MEMBER)
};

struct InstanceTable {
  KCACHE_VULKAN_INSTANCE_FUNCTIONS(KCACHE_VULKAN_MEMBER)
  KCACHE_VULKAN_DEBUG_FUNCTIONS(KCACHE_VULKAN_MEMBER)
};

struct DeviceTable {
  KCACHE_VULKAN_DEVICE_FUNCTIONS(KCACHE_VULKAN_MEMBER)
};

#undef KCACHE_VULKAN_MEMBER

// Opens `library` the first time and answers the same table from then on. BACKEND_UNAVAILABLE with
// the dynamic linker's reason when it cannot be opened.
absl::StatusOr<const GlobalTable*> LoadVulkan(const std::string& library = "libvulkan.so.1");

absl::StatusOr<InstanceTable> LoadInstanceTable(const GlobalTable& global, VkInstance instance,
                                                bool debug_utils);
absl::StatusOr<DeviceTable> LoadDeviceTable(const InstanceTable& instance, VkDevice device);

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_VULKAN_API_H_
