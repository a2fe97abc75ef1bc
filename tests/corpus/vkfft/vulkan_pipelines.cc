// Shader modules, pipelines and descriptors of the stand-in (vulkan_over_kcache.h).

#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "tests/corpus/vkfft/vulkan_objects.h"

using kcache::corpus::vulkan;
using kcache::corpus::VulkanAnswer;

namespace {

// The bindings of the shader's buffers, by the name of the block: "binding = 2) buffer DataOut{".
std::map<std::string, uint32_t> BindingsOf(const std::string& glsl) {
  constexpr std::string_view kBinding = "binding = ", kBuffer = "buffer ";
  std::map<std::string, uint32_t> bindings;
  for (size_t at = glsl.find(kBinding); at != std::string::npos; at = glsl.find(kBinding, at)) {
    at += kBinding.size();
    const uint32_t binding = static_cast<uint32_t>(std::strtoul(&glsl[at], nullptr, 10));
    const size_t buffer = glsl.find(kBuffer, at);
    if (buffer == std::string::npos) break;
    const size_t name = buffer + kBuffer.size();
    bindings[glsl.substr(name, glsl.find_first_of(" {", name) - name)] = binding;
  }
  return bindings;
}

absl::StatusOr<std::vector<std::pair<uint32_t, uint32_t>>> DescriptorsOf(
    const std::string& glsl, const kcache::KernelInfo& kernel) {
  const std::map<std::string, uint32_t> bindings = BindingsOf(glsl);
  std::map<uint32_t, uint32_t> elements;  // seen so far, by binding
  std::vector<std::pair<uint32_t, uint32_t>> descriptors;
  for (const kcache::ArgumentInfo& argument : kernel.arguments) {
    if (argument.kind != kcache::ArgumentKind::kBuffer) continue;  // of the push constants
    const auto binding = bindings.find(argument.type_name);
    if (binding == bindings.end()) {
      return absl::NotFoundError(absl::StrCat("no binding for the buffer ", argument.type_name));
    }
    descriptors.emplace_back(binding->second, elements[binding->second]++);
  }
  return descriptors;
}

}  // namespace

extern "C" {

// The words are those of glslang_over_kcache.cc: text, and zeros up to a whole word.
VKAPI_ATTR VkResult VKAPI_CALL vkCreateShaderModule(VkDevice, const VkShaderModuleCreateInfo* info,
                                                    const VkAllocationCallbacks*,
                                                    VkShaderModule* module) {
  const char* text = reinterpret_cast<const char*>(info->pCode);
  *module = new VkShaderModule_T{std::string(text, strnlen(text, info->codeSize))};
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyShaderModule(VkDevice, VkShaderModule module,
                                                 const VkAllocationCallbacks*) {
  delete module;
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateComputePipelines(VkDevice, VkPipelineCache, uint32_t count,
                                                        const VkComputePipelineCreateInfo* infos,
                                                        const VkAllocationCallbacks*,
                                                        VkPipeline* pipelines) {
  for (uint32_t i = 0; i < count; ++i) {
    pipelines[i] = nullptr;
    const VkPipelineShaderStageCreateInfo& stage = infos[i].stage;
    ++vulkan->counts.programs;
    if (stage.pSpecializationInfo != nullptr) {
      return VulkanAnswer(absl::UnimplementedError("specialization constants"),
                          VK_ERROR_INITIALIZATION_FAILED);
    }
    auto program = kcache::Program::FromSource("glsl", stage.module->glsl);
    if (!program.ok()) return VulkanAnswer(program.status(), VK_ERROR_INITIALIZATION_FAILED);
    auto kernel = vulkan->client->Acquire(
        {.program = *program, .entry = stage.pName, .device = vulkan->physical_device.info.id});
    if (!kernel.ok()) return VulkanAnswer(kernel.status(), VK_ERROR_INITIALIZATION_FAILED);
    ++vulkan->counts.compiled;
    auto descriptors = DescriptorsOf(stage.module->glsl, kernel->info());
    if (!descriptors.ok()) {
      return VulkanAnswer(descriptors.status(), VK_ERROR_INITIALIZATION_FAILED);
    }
    pipelines[i] = new VkPipeline_T{*std::move(kernel), *std::move(descriptors)};
  }
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyPipeline(VkDevice, VkPipeline pipeline,
                                             const VkAllocationCallbacks*) {
  delete pipeline;
}

// What layouts say, kcache reads from the shader.
VKAPI_ATTR VkResult VKAPI_CALL vkCreatePipelineLayout(VkDevice, const VkPipelineLayoutCreateInfo*,
                                                      const VkAllocationCallbacks*,
                                                      VkPipelineLayout* layout) {
  *layout = new VkPipelineLayout_T;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyPipelineLayout(VkDevice, VkPipelineLayout layout,
                                                   const VkAllocationCallbacks*) {
  delete layout;
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateDescriptorSetLayout(VkDevice,
                                                           const VkDescriptorSetLayoutCreateInfo*,
                                                           const VkAllocationCallbacks*,
                                                           VkDescriptorSetLayout* layout) {
  *layout = new VkDescriptorSetLayout_T;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyDescriptorSetLayout(VkDevice, VkDescriptorSetLayout layout,
                                                        const VkAllocationCallbacks*) {
  delete layout;
}

VKAPI_ATTR VkResult VKAPI_CALL vkCreateDescriptorPool(VkDevice, const VkDescriptorPoolCreateInfo*,
                                                      const VkAllocationCallbacks*,
                                                      VkDescriptorPool* pool) {
  *pool = new VkDescriptorPool_T;
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkDestroyDescriptorPool(VkDevice, VkDescriptorPool pool,
                                                   const VkAllocationCallbacks*) {
  delete pool;
}

VKAPI_ATTR VkResult VKAPI_CALL vkAllocateDescriptorSets(VkDevice,
                                                        const VkDescriptorSetAllocateInfo* info,
                                                        VkDescriptorSet* sets) {
  for (uint32_t i = 0; i < info->descriptorSetCount; ++i) {
    auto& made = info->descriptorPool->sets.emplace_back(std::make_unique<VkDescriptorSet_T>());
    sets[i] = made.get();
  }
  return VK_SUCCESS;
}

VKAPI_ATTR void VKAPI_CALL vkUpdateDescriptorSets(VkDevice, uint32_t writes,
                                                  const VkWriteDescriptorSet* write, uint32_t,
                                                  const VkCopyDescriptorSet*) {
  for (uint32_t i = 0; i < writes; ++i) {
    for (uint32_t j = 0; j < write[i].descriptorCount; ++j) {
      write[i].dstSet->buffers[{write[i].dstBinding, write[i].dstArrayElement + j}] =
          write[i].pBufferInfo[j];
    }
  }
}

}  // extern "C"
