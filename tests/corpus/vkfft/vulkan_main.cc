// corpus_vkfft_vulkan: VkFFT over Vulkan, through the daemon; run.h has the options.

#include "tests/corpus/vkfft/run.h"
#include "tests/corpus/vkfft/vkfft_transform.h"
#include "tests/corpus/vkfft/vulkan_over_kcache.h"

namespace kcache::corpus {
namespace {

class VulkanApi : public VulkanOverKcache {
 public:
  using Memory = VkBuffer;
  using VulkanOverKcache::VulkanOverKcache;

  void Configure(VkFFTConfiguration* configuration) {
    configuration->physicalDevice = &physical_device_;
    configuration->device = &device_;
    configuration->queue = &queue_;
    configuration->commandPool = &command_pool_;
    configuration->fence = &fence_;
  }

  // VkFFT appends to a command buffer of ours.
  VkFFTResult Append(VkFFTApplication* application, int direction, Memory* memory,
                     uint64_t offset) {
    VkCommandBufferAllocateInfo allocate = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
    allocate.commandPool = command_pool_;
    allocate.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
    allocate.commandBufferCount = 1;
    VkCommandBuffer commands = nullptr;
    if (vkAllocateCommandBuffers(device_, &allocate, &commands) != VK_SUCCESS) {
      return VKFFT_ERROR_FAILED_TO_ALLOCATE_COMMAND_BUFFERS;
    }
    const VkFFTResult result = Submit(application, direction, memory, offset, commands);
    vkFreeCommandBuffers(device_, command_pool_, 1, &commands);
    return result;
  }

 private:
  VkFFTResult Submit(VkFFTApplication* application, int direction, Memory* memory, uint64_t offset,
                     VkCommandBuffer commands) {
    const VkCommandBufferBeginInfo begin = {VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
    if (vkBeginCommandBuffer(commands, &begin) != VK_SUCCESS) {
      return VKFFT_ERROR_FAILED_TO_BEGIN_COMMAND_BUFFER;
    }
    VkFFTLaunchParams launch = {};
    launch.commandBuffer = &commands;
    launch.buffer = memory;
    launch.bufferOffset = offset;
    if (const VkFFTResult result = VkFFTAppend(application, direction, &launch);
        result != VKFFT_SUCCESS) {
      return result;
    }
    if (vkEndCommandBuffer(commands) != VK_SUCCESS) {
      return VKFFT_ERROR_FAILED_TO_END_COMMAND_BUFFER;
    }
    VkSubmitInfo submit = {VK_STRUCTURE_TYPE_SUBMIT_INFO};
    submit.commandBufferCount = 1;
    submit.pCommandBuffers = &commands;
    if (vkQueueSubmit(queue_, 1, &submit, fence_) != VK_SUCCESS) {
      return VKFFT_ERROR_FAILED_TO_SUBMIT_QUEUE;
    }
    if (vkWaitForFences(device_, 1, &fence_, VK_TRUE, UINT64_MAX) != VK_SUCCESS) {
      return VKFFT_ERROR_FAILED_TO_WAIT_FOR_FENCES;
    }
    return vkResetFences(device_, 1, &fence_) == VK_SUCCESS ? VKFFT_SUCCESS
                                                            : VKFFT_ERROR_FAILED_TO_RESET_FENCES;
  }

  // VkFFT keeps pointers to these.
  VkPhysicalDevice physical_device_ = physical_device();
  VkDevice device_ = device();
  VkQueue queue_ = queue();
  VkCommandPool command_pool_ = command_pool();
  VkFence fence_ = fence();
};

}  // namespace
}  // namespace kcache::corpus

int main(int argc, char** argv) {
  using namespace kcache::corpus;  // NOLINT(google-build-using-namespace)
  return RunCorpus({.program = "corpus_vkfft_vulkan",
                    .framework = "Vulkan",
                    .offsets = true,
                    .make = [](const Place& place) -> std::unique_ptr<Transform> {
                      return std::make_unique<VkfftTransform<VulkanApi>>(place);
                    }},
                   argc, argv);
}
