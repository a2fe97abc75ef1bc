// As much of Vulkan, and of glslang, as VkFFT calls, on top of kcache: VkFFT itself is unchanged
// and links this in the place of the loader and of the compiler. glslang's calls pass the GLSL on,
// which becomes a kernel of the daemon's when its pipeline is made; memory, copies and dispatches
// are the device host's.
//
// Threads: one. Ownership: VulkanOverKcache outlives what was made through it.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_VULKAN_OVER_KCACHE_H_
#define KCACHE_TESTS_CORPUS_VKFFT_VULKAN_OVER_KCACHE_H_

#include <vulkan/vulkan.h>

#include <cstddef>

#include "tests/corpus/vkfft/place.h"
#include "tests/corpus/vkfft/transform.h"

namespace kcache::corpus {

class VulkanOverKcache {
 public:
  explicit VulkanOverKcache(const Place& place);
  ~VulkanOverKcache();

  // What VkFFT is configured with.
  VkPhysicalDevice physical_device();
  VkDevice device();
  VkQueue queue();
  VkCommandPool command_pool();
  VkFence fence();

  // Buffers with memory of their own.
  VkBuffer Allocate(size_t bytes);
  absl::Status Write(VkBuffer buffer, const void* data, size_t bytes);
  absl::Status Read(VkBuffer buffer, void* data, size_t bytes);
  void Release(VkBuffer buffer);

  const Counts& counts() const;
  // The first thing that kcache refused, for VkFFT's own errors are numbers.
  const absl::Status& failure() const;
};

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_VULKAN_OVER_KCACHE_H_
