// Command buffers and queues of the stand-in (vulkan_over_kcache.h): commands are recorded as calls
// of kcache's, which submitting makes.

#include <algorithm>
#include <cstring>
#include <span>

#include "absl/strings/str_cat.h"
#include "tests/corpus/vkfft/vulkan_objects.h"

using kcache::corpus::vulkan;
using kcache::corpus::VulkanAnswer;

namespace {

// What a descriptor set shows to a kernel, in the order of its arguments.
absl::StatusOr<std::vector<kcache::BufferView>> Views(const VkPipeline_T& pipeline,
                                                      const VkDescriptorSet_T& set) {
  std::vector<kcache::BufferView> views;
  for (const auto& [binding, element] : pipeline.descriptors) {
    const auto written = set.buffers.find({binding, element});
    if (written == set.buffers.end() || written->second.buffer == nullptr) {
      return absl::FailedPreconditionError(
          absl::StrCat("nothing was written to binding ", binding, ", element ", element));
    }
    const VkDescriptorBufferInfo& info = written->second;
    auto view = info.buffer->memory->buffer.View(info.offset, info.range);
    if (!view.ok()) return view.status();
    views.push_back(*std::move(view));
  }
  return views;
}

}  // namespace

extern "C" {

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateCommandBuffers(VkDevice,
                                                        const VkCommandBufferAllocateInfo* info,
                                                        VkCommandBuffer* commands) {
  for (uint32_t i = 0; i < info->commandBufferCount; ++i) commands[i] = new VkCommandBuffer_T;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkFreeCommandBuffers(VkDevice, VkCommandPool, uint32_t count,
                                                const VkCommandBuffer* commands) {
  for (uint32_t i = 0; i < count; ++i) delete commands[i];
}

VKAPI_ATTR VkResult VKAPI_CALL vkBeginCommandBuffer(VkCommandBuffer commands,
                                                    const VkCommandBufferBeginInfo*) {
  *commands = {};
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkEndCommandBuffer(VkCommandBuffer) { return VK_SUCCESS; }

VKAPI_ATTR void VKAPI_CALL vkCmdBindPipeline(VkCommandBuffer commands, VkPipelineBindPoint,
                                             VkPipeline pipeline) {
  commands->pipeline = pipeline;
}

VKAPI_ATTR void VKAPI_CALL vkCmdBindDescriptorSets(VkCommandBuffer commands, VkPipelineBindPoint,
                                                   VkPipelineLayout, uint32_t, uint32_t,
                                                   const VkDescriptorSet* sets, uint32_t,
                                                   const uint32_t*) {
  commands->set = sets[0];
}

VKAPI_ATTR void VKAPI_CALL vkCmdPushConstants(VkCommandBuffer commands, VkPipelineLayout,
                                              VkShaderStageFlags, uint32_t offset, uint32_t size,
                                              const void* values) {
  std::string& bytes = commands->push_constants;
  bytes.resize(std::max<size_t>(bytes.size(), offset + size));
  std::memcpy(bytes.data() + offset, values, size);
}

VKAPI_ATTR void VKAPI_CALL vkCmdDispatch(VkCommandBuffer commands, uint32_t x, uint32_t y,
                                         uint32_t z) {
  auto views = Views(*commands->pipeline, *commands->set);
  commands->commands.push_back([kernel = commands->pipeline->kernel, views = std::move(views),
                                push_constants = commands->push_constants,
                                groups = kcache::Dim3(x, y, z)](const kcache::Queue& queue) {
    if (!views.ok()) return views.status();
    auto config = kcache::LaunchConfig::Grid(groups, kernel.info().required_local_size);
    // What is set may be another shader's, whose block is larger.
    config.push_constants =
        std::as_bytes(std::span(push_constants))
            .first(std::min<size_t>(push_constants.size(), kernel.info().push_constant_bytes));
    const std::vector<kcache::Argument> arguments(views->begin(), views->end());
    ++vulkan->counts.launches;
    return kernel.LaunchList(queue, config, arguments);
  });
}

VKAPI_ATTR void VKAPI_CALL vkCmdCopyBuffer(VkCommandBuffer commands, VkBuffer from, VkBuffer to,
                                           uint32_t count, const VkBufferCopy* regions) {
  for (uint32_t i = 0; i < count; ++i) {
    commands->commands.push_back([from, to, region = regions[i]](const kcache::Queue& queue) {
      return to->memory->buffer.CopyFrom(queue, region.dstOffset, from->memory->buffer,
                                         region.srcOffset, region.size);
    });
  }
}

// Commands of one queue of kcache's run in order.
VKAPI_ATTR void VKAPI_CALL vkCmdPipelineBarrier(VkCommandBuffer, VkPipelineStageFlags,
                                                VkPipelineStageFlags, VkDependencyFlags, uint32_t,
                                                const VkMemoryBarrier*, uint32_t,
                                                const VkBufferMemoryBarrier*, uint32_t,
                                                const VkImageMemoryBarrier*) {}

VKAPI_ATTR VkResult VKAPI_CALL vkQueueSubmit(VkQueue queue, uint32_t count,
                                             const VkSubmitInfo* submits, VkFence) {
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t j = 0; j < submits[i].commandBufferCount; ++j) {
      for (const auto& command : submits[i].pCommandBuffers[j]->commands) {
        const absl::Status status = command(queue->queue);
        if (!status.ok()) return VulkanAnswer(status, VK_ERROR_DEVICE_LOST);
      }
    }
  }
  return VK_SUCCESS;
}

VKAPI_ATTR VkResult VKAPI_CALL vkWaitForFences(VkDevice, uint32_t, const VkFence*, VkBool32,
                                               uint64_t) {
  return VulkanAnswer(vulkan->queue.queue.Synchronize(), VK_ERROR_DEVICE_LOST);
}

VKAPI_ATTR VkResult VKAPI_CALL vkResetFences(VkDevice, uint32_t, const VkFence*) {
  return VK_SUCCESS;
}

}  // extern "C"
