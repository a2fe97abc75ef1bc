#include "backends/vulkan/pipeline.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/vulkan/vulkan_status.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::vulkan {
namespace {

// Vulkan specification, "Pipeline Cache Header": what every cache has, even an empty one.
constexpr size_t kCacheHeaderBytes = 16 + VK_UUID_SIZE;

absl::Status CheckLimits(const ShaderEntry& entry, const Device& device) {
  const VkPhysicalDeviceLimits& limits = device.physical().limits();
  const auto refuse = [&](v1::ErrorReason reason, const std::string& what, uint64_t value,
                          const char* limit_name, uint64_t limit) {
    return MakeError(reason, absl::StrCat("entry point ", Quoted(entry.name), ": ", what, " ",
                                          value, " is beyond ", limit_name, " ", limit));
  };
  if (!entry.unsupported.empty()) {
    return MakeError(v1::BAD_REQUEST, absl::StrCat("entry point ", Quoted(entry.name),
                                                   " cannot be launched: ", entry.unsupported));
  }
  if (entry.local_size_from_modes && !device.features().maintenance4) {
    return MakeError(v1::UNSUPPORTED_ARCHITECTURE,
                     "the shader uses LocalSizeId, which needs maintenance4 (Vulkan 1.3)");
  }
  uint64_t invocations = 1;
  for (size_t i = 0; i < 3; ++i) {
    const uint32_t extent = entry.local_size[i].value;
    if (extent == 0 || extent > limits.maxComputeWorkGroupSize[i]) {
      return refuse(v1::INVALID_LAUNCH, absl::StrCat("local size[", i, "]"), extent,
                    "maxComputeWorkGroupSize", limits.maxComputeWorkGroupSize[i]);
    }
    invocations *= extent;
  }
  if (invocations > limits.maxComputeWorkGroupInvocations) {
    return refuse(v1::INVALID_LAUNCH, "local size", invocations, "maxComputeWorkGroupInvocations",
                  limits.maxComputeWorkGroupInvocations);
  }
  if (entry.push_constant_bytes > limits.maxPushConstantsSize) {
    return refuse(v1::BAD_REQUEST, "push-constant bytes", entry.push_constant_bytes,
                  "maxPushConstantsSize", limits.maxPushConstantsSize);
  }
  if (entry.local_memory_bytes > limits.maxComputeSharedMemorySize) {
    return refuse(v1::BAD_REQUEST, "shared memory bytes", entry.local_memory_bytes,
                  "maxComputeSharedMemorySize", limits.maxComputeSharedMemorySize);
  }
  uint64_t storage = 0, uniform = 0;
  for (const BufferBinding& buffer : entry.buffers) {
    (buffer.uniform ? uniform : storage) += buffer.count;
    if (buffer.set >= limits.maxBoundDescriptorSets) {
      return refuse(v1::BAD_REQUEST, "descriptor set", buffer.set, "maxBoundDescriptorSets",
                    limits.maxBoundDescriptorSets);
    }
  }
  if (storage > limits.maxPerStageDescriptorStorageBuffers) {
    return refuse(v1::BAD_REQUEST, "storage buffers", storage,
                  "maxPerStageDescriptorStorageBuffers",
                  limits.maxPerStageDescriptorStorageBuffers);
  }
  if (uniform > limits.maxPerStageDescriptorUniformBuffers) {
    return refuse(v1::BAD_REQUEST, "uniform buffers", uniform,
                  "maxPerStageDescriptorUniformBuffers",
                  limits.maxPerStageDescriptorUniformBuffers);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SpecializationValues> SpecializationOf(const v1::Specialization& specialization,
                                                      const SpirvModule& module) {
  SpecializationValues values;
  const std::vector<SpecConstant> constants = SpecConstantsOf(module);
  for (const v1::SpecializationConstant& given : specialization.constants()) {
    const auto constant = std::find_if(constants.begin(), constants.end(),
                                       [&](const auto& one) { return one.id == given.id(); });
    if (constant == constants.end()) continue;
    if (given.value().size() < constant->bytes || given.value().size() > sizeof(uint64_t)) {
      return MakeError(v1::INVALID_ARGUMENTS, absl::StrCat("specialization constant ", given.id(),
                                                           " has ", constant->bytes, " bytes, ",
                                                           given.value().size(), " were given"));
    }
    uint64_t value = 0;
    std::memcpy(&value, given.value().data(), given.value().size());
    values[given.id()] = constant->is_bool ? uint64_t{value != 0} : value;
  }
  return values;
}

Pipeline::~Pipeline() {
  const DeviceTable& vk = device_->vk();
  if (pipeline_ != VK_NULL_HANDLE) vk.DestroyPipeline(device_->handle(), pipeline_, nullptr);
  if (layout_ != VK_NULL_HANDLE) vk.DestroyPipelineLayout(device_->handle(), layout_, nullptr);
  for (VkDescriptorSetLayout layout : set_layouts_) {
    vk.DestroyDescriptorSetLayout(device_->handle(), layout, nullptr);
  }
}

LocalSize Pipeline::local_size() const {
  return {entry_.local_size[0].value, entry_.local_size[1].value, entry_.local_size[2].value};
}

absl::StatusOr<std::unique_ptr<LoadedModule>> LoadedModule::Load(Device* device, SpirvModule module,
                                                                 std::string_view cache) {
  absl::Status supported = device->CheckCapabilities(module);
  if (!supported.ok()) return supported;
  auto loaded = std::unique_ptr<LoadedModule>(new LoadedModule(device, std::move(module)));
  auto shader = Structure<VkShaderModuleCreateInfo>(VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
  shader.codeSize = loaded->spirv_.words().size_bytes();
  shader.pCode = loaded->spirv_.words().data();
  VkResult result =
      device->vk().CreateShaderModule(device->handle(), &shader, nullptr, &loaded->module_);
  if (result != VK_SUCCESS) {
    loaded->module_ = VK_NULL_HANDLE;
    return ResultStatus(result, "making a shader module");
  }
  auto create = Structure<VkPipelineCacheCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO);
  create.initialDataSize = cache.size();
  create.pInitialData = cache.empty() ? nullptr : cache.data();
  result = device->vk().CreatePipelineCache(device->handle(), &create, nullptr, &loaded->cache_);
  if (result != VK_SUCCESS) {
    loaded->cache_ = VK_NULL_HANDLE;
    return ResultStatus(result,
                        absl::StrCat("making a pipeline cache from ", cache.size(), " bytes"));
  }
  return loaded;
}

LoadedModule::~LoadedModule() {
  const DeviceTable& vk = device_->vk();
  if (cache_ != VK_NULL_HANDLE) vk.DestroyPipelineCache(device_->handle(), cache_, nullptr);
  if (module_ != VK_NULL_HANDLE) vk.DestroyShaderModule(device_->handle(), module_, nullptr);
}

absl::StatusOr<std::shared_ptr<const Pipeline>> LoadedModule::MakePipeline(
    const std::string& entry, SpecializationValues values, std::optional<LocalSize> local,
    uint64_t* jit_microseconds) const {
  auto reflected = ReflectEntry(spirv_, entry, values);
  if (!reflected.ok()) return reflected.status();
  if (local) {
    for (size_t i = 0; i < 3; ++i) {
      if (reflected->local_size[i].spec_id) values[*reflected->local_size[i].spec_id] = (*local)[i];
    }
    reflected = ReflectEntry(spirv_, entry, values);
    if (!reflected.ok()) return reflected.status();
  }
  absl::Status fits = CheckLimits(*reflected, *device_);
  if (!fits.ok()) return fits;

  auto pipeline = std::shared_ptr<Pipeline>(new Pipeline(device_));
  pipeline->entry_ = *std::move(reflected);
  const ShaderEntry& shader = pipeline->entry_;
  const DeviceTable& vk = device_->vk();

  std::vector<std::vector<VkDescriptorSetLayoutBinding>> sets;
  for (const BufferBinding& buffer : shader.buffers) {
    if (buffer.set >= sets.size()) sets.resize(buffer.set + 1);
    VkDescriptorSetLayoutBinding binding{};
    binding.binding = buffer.binding;
    binding.descriptorType =
        buffer.uniform ? VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    binding.descriptorCount = buffer.count;
    binding.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    sets[buffer.set].push_back(binding);
    for (uint32_t i = 0; i < buffer.count; ++i) {
      pipeline->slots_.push_back(
          {buffer.set, buffer.binding, i, binding.descriptorType, buffer.read_only});
    }
  }
  for (const auto& bindings : sets) {
    auto create = Structure<VkDescriptorSetLayoutCreateInfo>(
        VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO);
    create.bindingCount = static_cast<uint32_t>(bindings.size());
    create.pBindings = bindings.data();
    VkDescriptorSetLayout layout = VK_NULL_HANDLE;
    const VkResult result =
        vk.CreateDescriptorSetLayout(device_->handle(), &create, nullptr, &layout);
    if (result != VK_SUCCESS) return ResultStatus(result, "making a descriptor set layout");
    pipeline->set_layouts_.push_back(layout);
  }
  const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, shader.push_constant_bytes};
  auto layout =
      Structure<VkPipelineLayoutCreateInfo>(VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO);
  layout.setLayoutCount = static_cast<uint32_t>(pipeline->set_layouts_.size());
  layout.pSetLayouts = pipeline->set_layouts_.data();
  layout.pushConstantRangeCount = shader.push_constant_bytes > 0 ? 1 : 0;
  layout.pPushConstantRanges = &range;
  VkResult result =
      vk.CreatePipelineLayout(device_->handle(), &layout, nullptr, &pipeline->layout_);
  if (result != VK_SUCCESS) {
    pipeline->layout_ = VK_NULL_HANDLE;
    return ResultStatus(result, "making a pipeline layout");
  }

  std::vector<VkSpecializationMapEntry> map;
  std::vector<uint64_t> data;
  for (const SpecConstant& constant : constants_) {
    const auto value = values.find(constant.id);
    if (value == values.end()) continue;
    map.push_back(
        {constant.id, static_cast<uint32_t>(data.size() * sizeof(uint64_t)), constant.bytes});
    data.push_back(value->second);
  }
  const VkSpecializationInfo specialization = {static_cast<uint32_t>(map.size()), map.data(),
                                               data.size() * sizeof(uint64_t), data.data()};
  VkPipelineCreationFeedback feedback{}, stage_feedback{};
  auto ask = Structure<VkPipelineCreationFeedbackCreateInfo>(
      VK_STRUCTURE_TYPE_PIPELINE_CREATION_FEEDBACK_CREATE_INFO);
  ask.pPipelineCreationFeedback = &feedback;
  ask.pipelineStageCreationFeedbackCount = 1;
  ask.pPipelineStageCreationFeedbacks = &stage_feedback;
  auto create =
      Structure<VkComputePipelineCreateInfo>(VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO);
  if (device_->features().pipeline_creation_feedback) create.pNext = &ask;
  create.stage = Structure<VkPipelineShaderStageCreateInfo>(
      VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO);
  create.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  create.stage.module = module_;
  create.stage.pName = entry.c_str();
  create.stage.pSpecializationInfo = map.empty() ? nullptr : &specialization;
  create.layout = pipeline->layout_;
  const auto start = std::chrono::steady_clock::now();
  result = vk.CreateComputePipelines(device_->handle(), cache_, 1, &create, nullptr,
                                     &pipeline->pipeline_);
  const auto took = std::chrono::steady_clock::now() - start;
  if (result != VK_SUCCESS) {
    pipeline->pipeline_ = VK_NULL_HANDLE;
    return ResultStatus(result, absl::StrCat("making the pipeline of ", Quoted(entry)));
  }
  constexpr VkPipelineCreationFeedbackFlags kHit =
      VK_PIPELINE_CREATION_FEEDBACK_VALID_BIT |
      VK_PIPELINE_CREATION_FEEDBACK_APPLICATION_PIPELINE_CACHE_HIT_BIT;
  if ((feedback.flags & kHit) != kHit && jit_microseconds != nullptr) {
    *jit_microseconds +=
        static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(took).count());
  }
  return pipeline;
}

absl::StatusOr<std::string> LoadedModule::CacheData() const {
  const DeviceTable& vk = device_->vk();
  std::string data;
  for (;;) {
    size_t bytes = 0;
    VkResult result = vk.GetPipelineCacheData(device_->handle(), cache_, &bytes, nullptr);
    if (result != VK_SUCCESS) return ResultStatus(result, "measuring the pipeline cache");
    data.resize(bytes);
    result = vk.GetPipelineCacheData(device_->handle(), cache_, &bytes, data.data());
    if (result == VK_INCOMPLETE) continue;
    if (result != VK_SUCCESS) return ResultStatus(result, "reading the pipeline cache");
    data.resize(bytes);
    break;
  }
  if (data.size() <= kCacheHeaderBytes) data.clear();
  return data;
}

}  // namespace kcache::backend::vulkan
