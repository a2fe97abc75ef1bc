// Which SPIR-V capabilities an open device can take. A shader that declares one that is not enabled
// is undefined behaviour in Vulkan, so it is refused by name before the driver sees it.

#include <spirv/unified1/spirv.hpp>

#include "absl/strings/str_cat.h"
#include "backends/vulkan/device.h"
#include "contract/error_reason.h"

namespace kcache::backend::vulkan {
namespace {

struct Requirement {
  bool known = false;
  bool met = false;
  const char* name = "";
};

Requirement RequirementOf(uint32_t capability, const EnabledFeatures& f,
                          const VkPhysicalDeviceSubgroupProperties& subgroup) {
  const auto subgroup_has = [&](VkSubgroupFeatureFlags bits) {
    return (subgroup.supportedStages & VK_SHADER_STAGE_COMPUTE_BIT) != 0 &&
           (subgroup.supportedOperations & bits) == bits;
  };
  switch (capability) {
#define KCACHE_NEEDS(name, condition) \
  case spv::Capability##name:         \
    return {true, static_cast<bool>(condition), #name};
    KCACHE_NEEDS(Matrix, true)
    KCACHE_NEEDS(Shader, true)
    KCACHE_NEEDS(InputAttachment, true)
    KCACHE_NEEDS(Sampled1D, true)
    KCACHE_NEEDS(Image1D, true)
    KCACHE_NEEDS(SampledBuffer, true)
    KCACHE_NEEDS(ImageBuffer, true)
    KCACHE_NEEDS(ImageQuery, true)
    KCACHE_NEEDS(DerivativeControl, true)
    KCACHE_NEEDS(StorageImageExtendedFormats, f.core.shaderStorageImageExtendedFormats)
    KCACHE_NEEDS(StorageImageReadWithoutFormat, f.core.shaderStorageImageReadWithoutFormat)
    KCACHE_NEEDS(StorageImageWriteWithoutFormat, f.core.shaderStorageImageWriteWithoutFormat)
    KCACHE_NEEDS(Float64, f.core.shaderFloat64)
    KCACHE_NEEDS(Int64, f.core.shaderInt64)
    KCACHE_NEEDS(Int16, f.core.shaderInt16)
    KCACHE_NEEDS(UniformBufferArrayDynamicIndexing, f.core.shaderUniformBufferArrayDynamicIndexing)
    KCACHE_NEEDS(StorageBufferArrayDynamicIndexing, f.core.shaderStorageBufferArrayDynamicIndexing)
    KCACHE_NEEDS(StorageBuffer16BitAccess, f.v11.storageBuffer16BitAccess)
    KCACHE_NEEDS(UniformAndStorageBuffer16BitAccess, f.v11.uniformAndStorageBuffer16BitAccess)
    KCACHE_NEEDS(StoragePushConstant16, f.v11.storagePushConstant16)
    KCACHE_NEEDS(VariablePointersStorageBuffer, f.v11.variablePointersStorageBuffer)
    KCACHE_NEEDS(VariablePointers, f.v11.variablePointers)
    KCACHE_NEEDS(Float16, f.v12.shaderFloat16)
    KCACHE_NEEDS(Int8, f.v12.shaderInt8)
    KCACHE_NEEDS(StorageBuffer8BitAccess, f.v12.storageBuffer8BitAccess)
    KCACHE_NEEDS(UniformAndStorageBuffer8BitAccess, f.v12.uniformAndStorageBuffer8BitAccess)
    KCACHE_NEEDS(StoragePushConstant8, f.v12.storagePushConstant8)
    KCACHE_NEEDS(Int64Atomics, f.v12.shaderBufferInt64Atomics)
    KCACHE_NEEDS(PhysicalStorageBufferAddresses, f.v12.bufferDeviceAddress)
    KCACHE_NEEDS(VulkanMemoryModel, f.v12.vulkanMemoryModel)
    KCACHE_NEEDS(VulkanMemoryModelDeviceScope, f.v12.vulkanMemoryModelDeviceScope)
    KCACHE_NEEDS(RuntimeDescriptorArray, f.v12.runtimeDescriptorArray)
    KCACHE_NEEDS(ShaderNonUniform, f.v12.descriptorIndexing)
    KCACHE_NEEDS(StorageBufferArrayNonUniformIndexing,
                 f.v12.shaderStorageBufferArrayNonUniformIndexing)
    KCACHE_NEEDS(DenormPreserve, true)
    KCACHE_NEEDS(DenormFlushToZero, true)
    KCACHE_NEEDS(SignedZeroInfNanPreserve, true)
    KCACHE_NEEDS(RoundingModeRTE, true)
    KCACHE_NEEDS(RoundingModeRTZ, true)
    KCACHE_NEEDS(DotProduct, f.v13.shaderIntegerDotProduct)
    KCACHE_NEEDS(DotProductInputAll, f.v13.shaderIntegerDotProduct)
    KCACHE_NEEDS(DotProductInput4x8Bit, f.v13.shaderIntegerDotProduct)
    KCACHE_NEEDS(DotProductInput4x8BitPacked, f.v13.shaderIntegerDotProduct)
    KCACHE_NEEDS(AtomicFloat32AddEXT, f.atomic_float.shaderBufferFloat32AtomicAdd)
    KCACHE_NEEDS(AtomicFloat64AddEXT, f.atomic_float.shaderBufferFloat64AtomicAdd)
    KCACHE_NEEDS(GroupNonUniform, subgroup_has(VK_SUBGROUP_FEATURE_BASIC_BIT))
    KCACHE_NEEDS(GroupNonUniformVote, subgroup_has(VK_SUBGROUP_FEATURE_VOTE_BIT))
    KCACHE_NEEDS(GroupNonUniformArithmetic, subgroup_has(VK_SUBGROUP_FEATURE_ARITHMETIC_BIT))
    KCACHE_NEEDS(GroupNonUniformBallot, subgroup_has(VK_SUBGROUP_FEATURE_BALLOT_BIT))
    KCACHE_NEEDS(GroupNonUniformShuffle, subgroup_has(VK_SUBGROUP_FEATURE_SHUFFLE_BIT))
    KCACHE_NEEDS(GroupNonUniformShuffleRelative,
                 subgroup_has(VK_SUBGROUP_FEATURE_SHUFFLE_RELATIVE_BIT))
    KCACHE_NEEDS(GroupNonUniformClustered, subgroup_has(VK_SUBGROUP_FEATURE_CLUSTERED_BIT))
    KCACHE_NEEDS(GroupNonUniformQuad, subgroup_has(VK_SUBGROUP_FEATURE_QUAD_BIT))
#undef KCACHE_NEEDS
    default:
      return {};
  }
}

}  // namespace

absl::Status Device::CheckCapabilities(const SpirvModule& module) const {
  // SPIR-V 1.6 came with Vulkan 1.3, 1.5 with 1.2.
  const uint32_t newest =
      physical_.properties.apiVersion >= VK_API_VERSION_1_3 ? 0x010600 : 0x010500;
  if (module.version() > newest) {
    return MakeError(
        v1::UNSUPPORTED_ARCHITECTURE,
        absl::StrCat("SPIR-V ", (module.version() >> 16) & 0xff, ".",
                     (module.version() >> 8) & 0xff, " is newer than what ",
                     physical_.properties.deviceName, " takes (1.", (newest >> 8) & 0xff, ")"));
  }
  for (const uint32_t capability : module.capabilities()) {
    const Requirement requirement = RequirementOf(capability, features_, physical_.subgroup);
    if (requirement.met) continue;
    return MakeError(
        v1::UNSUPPORTED_ARCHITECTURE,
        requirement.known
            ? absl::StrCat("the shader needs the capability ", requirement.name, ", which ",
                           physical_.properties.deviceName, " does not have")
            : absl::StrCat("the shader needs the SPIR-V capability ", capability,
                           ", which this backend does not enable"));
  }
  return absl::OkStatus();
}

}  // namespace kcache::backend::vulkan
