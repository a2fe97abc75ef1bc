// The device, its memory, and what stands for them outside of VkFFT.

#include "tests/corpus/vkfft/vulkan_over_kcache.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "absl/strings/str_cat.h"
#include "tests/corpus/vkfft/vendor.h"
#include "tests/corpus/vkfft/vulkan_objects.h"

namespace kcache::corpus {

VulkanState* vulkan = nullptr;

VkResult VulkanAnswer(const absl::Status& status, VkResult failure) {
  if (status.ok()) return VK_SUCCESS;
  vulkan->failure.Update(status);
  return failure;
}

VulkanOverKcache::VulkanOverKcache(const Place& place) {
  vulkan = new VulkanState;
  vulkan->client = place.client;
  vulkan->physical_device.info = *place.device;
  auto queue = place.client->GetQueue(place.device->id);
  if (queue.ok()) {
    vulkan->queue.queue = *queue;
  } else {
    vulkan->failure = queue.status();
  }
}

VulkanOverKcache::~VulkanOverKcache() {
  delete vulkan;
  vulkan = nullptr;
}

VkPhysicalDevice VulkanOverKcache::physical_device() { return &vulkan->physical_device; }
VkDevice VulkanOverKcache::device() { return &vulkan->device; }
VkQueue VulkanOverKcache::queue() { return &vulkan->queue; }
VkCommandPool VulkanOverKcache::command_pool() { return &vulkan->command_pool; }
VkFence VulkanOverKcache::fence() { return &vulkan->fence; }
const Counts& VulkanOverKcache::counts() const { return vulkan->counts; }
const absl::Status& VulkanOverKcache::failure() const { return vulkan->failure; }

VkBuffer VulkanOverKcache::Allocate(size_t bytes) {
  VkMemoryAllocateInfo info = {};
  info.allocationSize = bytes;
  VkDeviceMemory memory = nullptr;
  if (vkAllocateMemory(device(), &info, nullptr, &memory) != VK_SUCCESS) return nullptr;
  return new VkBuffer_T{bytes, memory};
}

absl::Status VulkanOverKcache::Write(VkBuffer buffer, const void* data, size_t bytes) {
  return buffer->memory->buffer.Write(vulkan->queue.queue, 0,
                                      {static_cast<const std::byte*>(data), bytes});
}

absl::Status VulkanOverKcache::Read(VkBuffer buffer, void* data, size_t bytes) {
  return buffer->memory->buffer.Read(vulkan->queue.queue, 0,
                                     {static_cast<std::byte*>(data), bytes});
}

void VulkanOverKcache::Release(VkBuffer buffer) {
  delete buffer->memory;
  delete buffer;
}

}  // namespace kcache::corpus

using kcache::corpus::vulkan;
using kcache::corpus::VulkanAnswer;

extern "C" {

VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceProperties(VkPhysicalDevice physical_device,
                                                         VkPhysicalDeviceProperties* properties) {
  const kcache::DeviceLimits& from = physical_device->info.limits;
  *properties = {};
  properties->vendorID = kcache::corpus::PciVendor(physical_device->info);
  VkPhysicalDeviceLimits& limits = properties->limits;
  const auto groups = [](uint64_t most) {
    return static_cast<uint32_t>(std::min<uint64_t>(most, std::numeric_limits<uint32_t>::max()));
  };
  limits.maxComputeWorkGroupInvocations = from.max_local_size;
  limits.maxComputeWorkGroupCount[0] = groups(from.max_grid_x);
  limits.maxComputeWorkGroupCount[1] = groups(from.max_grid_y);
  limits.maxComputeWorkGroupCount[2] = groups(from.max_grid_z);
  limits.maxComputeWorkGroupSize[0] = from.max_local_dims.x;
  limits.maxComputeWorkGroupSize[1] = from.max_local_dims.y;
  limits.maxComputeWorkGroupSize[2] = from.max_local_dims.z;
  limits.maxComputeSharedMemorySize = groups(from.local_memory_bytes);
}

// One heap with one type, which is good for everything.
VKAPI_ATTR void VKAPI_CALL vkGetPhysicalDeviceMemoryProperties(
    VkPhysicalDevice physical_device, VkPhysicalDeviceMemoryProperties* properties) {
  *properties = {};
  properties->memoryTypeCount = 1;
  properties->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT |
                                             VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                             VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
  properties->memoryHeapCount = 1;
  properties->memoryHeaps[0].size = physical_device->info.limits.memory_bytes;
  properties->memoryHeaps[0].flags = VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
}

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateMemory(VkDevice, const VkMemoryAllocateInfo* info,
                                                const VkAllocationCallbacks*,
                                                VkDeviceMemory* memory) {
  auto buffer = vulkan->client->Allocate(vulkan->physical_device.info.id, info->allocationSize);
  if (!buffer.ok()) return VulkanAnswer(buffer.status(), VK_ERROR_OUT_OF_DEVICE_MEMORY);
  *memory = new VkDeviceMemory_T{*std::move(buffer), {}};
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkFreeMemory(VkDevice, VkDeviceMemory memory,
                                        const VkAllocationCallbacks*) {
  delete memory;
}

// Nobody maps what the device has written, so the host's view begins as zeros and only goes there.
VKAPI_ATTR VkResult VKAPI_CALL vkMapMemory(VkDevice, VkDeviceMemory memory, VkDeviceSize offset,
                                           VkDeviceSize, VkMemoryMapFlags, void** data) {
  memory->mapped.assign(memory->buffer.size(), '\0');
  *data = memory->mapped.data() + offset;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkUnmapMemory(VkDevice, VkDeviceMemory memory) {
  VulkanAnswer(
      memory->buffer.Write(vulkan->queue.queue, 0, std::as_bytes(std::span(memory->mapped))),
      VK_ERROR_MEMORY_MAP_FAILED);
  memory->mapped.clear();
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateBuffer(VkDevice, const VkBufferCreateInfo* info,
                                              const VkAllocationCallbacks*, VkBuffer* buffer) {
  *buffer = new VkBuffer_T{info->size};
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyBuffer(VkDevice, VkBuffer buffer,
                                           const VkAllocationCallbacks*) {
  delete buffer;
}

VKAPI_ATTR void VKAPI_CALL vkGetBufferMemoryRequirements(VkDevice, VkBuffer buffer,
                                                         VkMemoryRequirements* requirements) {
  *requirements = {buffer->bytes, 1, 1};
}

VKAPI_ATTR VkResult VKAPI_CALL vkBindBufferMemory(VkDevice, VkBuffer buffer, VkDeviceMemory memory,
                                                  VkDeviceSize offset) {
  if (offset != 0) {
    return VulkanAnswer(absl::UnimplementedError(absl::StrCat("a buffer at offset ", offset)),
                        VK_ERROR_OUT_OF_DEVICE_MEMORY);
  }
  buffer->memory = memory;
  return VK_SUCCESS;
}

}  // extern "C"
