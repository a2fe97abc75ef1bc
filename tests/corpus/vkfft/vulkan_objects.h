// What Vulkan's handles point to in the stand-in (vulkan_over_kcache.h), and what its functions
// share.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_VULKAN_OBJECTS_H_
#define KCACHE_TESTS_CORPUS_VKFFT_VULKAN_OBJECTS_H_

#include <vulkan/vulkan.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kcache/client.h"
#include "tests/corpus/vkfft/transform.h"

struct VkPhysicalDevice_T {
  kcache::DeviceInfo info;
};
struct VkDevice_T {};
struct VkQueue_T {
  kcache::Queue queue;
};
struct VkCommandPool_T {};
struct VkFence_T {};

struct VkDeviceMemory_T {
  kcache::Buffer buffer;
  std::string mapped;  // while it is mapped: what the host sees
};
struct VkBuffer_T {
  uint64_t bytes = 0;
  VkDeviceMemory memory = nullptr;  // bound to its beginning
};

struct VkShaderModule_T {
  std::string glsl;
};
struct VkDescriptorSetLayout_T {};
struct VkDescriptorSet_T {
  // By (binding, element).
  std::map<std::pair<uint32_t, uint32_t>, VkDescriptorBufferInfo> buffers;
};
struct VkDescriptorPool_T {
  std::vector<std::unique_ptr<VkDescriptorSet_T>> sets;
};
struct VkPipelineLayout_T {};
struct VkPipeline_T {
  kcache::Kernel kernel;
  // Which descriptor each argument is: kcache has only those that the shader uses, by binding.
  std::vector<std::pair<uint32_t, uint32_t>> descriptors;  // (binding, element)
};

struct VkCommandBuffer_T {
  // Bound at this point of the recording.
  VkPipeline pipeline = nullptr;
  VkDescriptorSet set = nullptr;
  std::string push_constants;
  std::vector<std::function<absl::Status(const kcache::Queue&)>> commands;
};

namespace kcache::corpus {

// Vulkan's functions have no state to pass, so there is one of these a process.
struct VulkanState {
  Client* client = nullptr;
  VkPhysicalDevice_T physical_device;
  VkDevice_T device;
  VkQueue_T queue;
  VkCommandPool_T command_pool;
  VkFence_T fence;
  Counts counts;
  absl::Status failure;
};
extern VulkanState* vulkan;

// Remembers the first failure.
VkResult VulkanAnswer(const absl::Status& status, VkResult failure);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_VULKAN_OBJECTS_H_
