// GLSL and SPIR-V kernels of the suite, for any Vulkan driver; here lavapipe.

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <spirv-tools/libspirv.hpp>
#include <string>
#include <vector>

#include "tests/conformance/backend.h"

namespace kcache::conformance {
namespace {

KernelSource Glsl(std::string body) {
  return {.language = "glsl", .source = "#version 450\n" + std::move(body), .entry = "main"};
}

// GLSL has one entry point a module, SPIR-V has any number.
constexpr char kTwoEntries[] = R"(
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %first "first" %gid
OpEntryPoint GLCompute %second "second" %gid
OpExecutionMode %first LocalSize 64 1 1
OpExecutionMode %second LocalSize 64 1 1
OpDecorate %gid BuiltIn GlobalInvocationId
OpDecorate %array ArrayStride 4
OpMemberDecorate %block 0 Offset 0
OpDecorate %block Block
OpDecorate %out DescriptorSet 0
OpDecorate %out Binding 0
%void = OpTypeVoid
%function = OpTypeFunction %void
%uint = OpTypeInt 32 0
%uvec3 = OpTypeVector %uint 3
%in_uvec3 = OpTypePointer Input %uvec3
%in_uint = OpTypePointer Input %uint
%array = OpTypeRuntimeArray %uint
%block = OpTypeStruct %array
%out_block = OpTypePointer StorageBuffer %block
%out_uint = OpTypePointer StorageBuffer %uint
%zero = OpConstant %uint 0
%two = OpConstant %uint 2
%three = OpConstant %uint 3
%gid = OpVariable %in_uvec3 Input
%out = OpVariable %out_block StorageBuffer
%first = OpFunction %void None %function
%first_label = OpLabel
%first_pointer = OpAccessChain %in_uint %gid %zero
%first_index = OpLoad %uint %first_pointer
%first_value = OpIMul %uint %first_index %two
%first_element = OpAccessChain %out_uint %out %zero %first_index
OpStore %first_element %first_value
OpReturn
OpFunctionEnd
%second = OpFunction %void None %function
%second_label = OpLabel
%second_pointer = OpAccessChain %in_uint %gid %zero
%second_index = OpLoad %uint %second_pointer
%second_value = OpIMul %uint %second_index %three
%second_element = OpAccessChain %out_uint %out %zero %second_index
OpStore %second_element %second_value
OpReturn
OpFunctionEnd
)";

std::string Assemble(const char* text) {
  spvtools::SpirvTools tools(SPV_ENV_UNIVERSAL_1_3);
  std::vector<uint32_t> words;
  tools.Assemble(text, &words);  // a failure leaves no words, and no module is a compile error
  return {reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t)};
}

std::map<Role, KernelSource> Kernels() {
  std::map<Role, KernelSource> kernels;
  kernels[Role::kVectorAdd] = Glsl(R"(
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer A { float a[]; };
layout(binding = 1) readonly buffer B { float b[]; };
layout(binding = 2) writeonly buffer Sum { float sum[]; };
layout(push_constant) uniform Parameters { uint n; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) sum[i] = a[i] + b[i];
}
)");
  kernels[Role::kSaxpy] = Glsl(R"(
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer X { float x[]; };
layout(binding = 1) buffer Y { float y[]; };
layout(push_constant) uniform Parameters { uint n; float a; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) y[i] += a * x[i];
}
)");
  kernels[Role::kIndex3d] = Glsl(R"(
layout(local_size_x_id = 0, local_size_y_id = 1, local_size_z_id = 2) in;
layout(binding = 0) buffer Out { uint data[]; };
void main() {
  uvec3 i = gl_GlobalInvocationID;
  uvec3 size = gl_NumWorkGroups * gl_WorkGroupSize;
  data[(i.z * size.y + i.y) * size.x + i.x] = i.z * 1000000u + i.y * 1000u + i.x;
}
)");
  kernels[Role::kReduce] = Glsl(R"(
layout(local_size_x = 64) in;
layout(binding = 0) readonly buffer In { uint values[]; };
layout(binding = 1) writeonly buffer Out { uint sums[]; };
shared uint tile[64];
void main() {
  uint l = gl_LocalInvocationID.x;
  tile[l] = values[gl_GlobalInvocationID.x];
  for (uint step = 32; step > 0; step /= 2) {
    barrier();
    if (l < step) tile[l] += tile[l + step];
  }
  if (l == 0) sums[gl_WorkGroupID.x] = tile[0];
}
)");
  kernels[Role::kBytes] = Glsl(R"(
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
layout(local_size_x = 64) in;
layout(binding = 0) buffer Out { uint8_t data[]; };
layout(push_constant) uniform Parameters { uint offset; uint n; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i < n) data[offset + i] = uint8_t((7u * i + 3u) & 0xffu);
}
)");
  kernels[Role::kTwoEntries] = {
      .language = "spirv", .source = Assemble(kTwoEntries), .entry = "first"};
  kernels[Role::kHeader] = Glsl(R"(
#extension GL_GOOGLE_include_directive : require
#include "scale.h"
layout(local_size_x = 64) in;
layout(binding = 0) buffer Out { uint data[]; };
void main() {
  uint i = gl_GlobalInvocationID.x;
  data[i] = HEADER_SCALE * i + OFFSET;
}
)");
  kernels[Role::kFlag] = Glsl(R"(
layout(local_size_x = 1) in;
layout(binding = 0) buffer Out { uint data[]; };
void main() { data[0] = __VERSION__ == 460 ? 1u : 0u; }
)");
  kernels[Role::kScalars] = Glsl(R"(
layout(local_size_x = 1) in;
layout(binding = 0) buffer Out { uint data[]; };
layout(push_constant) uniform Parameters { uint a; float b; uvec2 c; };
void main() {
  data[0] = a;
  data[1] = floatBitsToUint(b);
  data[2] = c.x;
  data[3] = c.y;
}
)");
  kernels[Role::kSpecialized] = Glsl(R"(
layout(local_size_x = 64) in;
layout(constant_id = 3) const uint FACTOR = 2;
layout(binding = 0) buffer Out { uint data[]; };
void main() { data[gl_GlobalInvocationID.x] = FACTOR * gl_GlobalInvocationID.x; }
)");
  kernels[Role::kIncrement] = Glsl(R"(
layout(local_size_x = 64) in;
layout(binding = 0) buffer Data { uint data[]; };
void main() { data[gl_GlobalInvocationID.x] += 1u; }
)");
  kernels[Role::kSetFlag] = Glsl(R"(
layout(local_size_x = 1) in;
layout(binding = 0) buffer Flag { uint flag[]; };
void main() { atomicExchange(flag[0], 1u); }
)");
  kernels[Role::kAwaitFlag] = Glsl(R"(
layout(local_size_x = 1) in;
layout(binding = 0) buffer Flag { uint flag[]; };
layout(binding = 1) writeonly buffer Out { uint data[]; };
layout(push_constant) uniform Parameters { uint most; };
void main() {
  uint seen = 2u;
  for (uint i = 0; i < most && seen == 2u; ++i) {
    if (atomicAdd(flag[0], 0u) != 0u) seen = 1u;
  }
  data[0] = seen;
}
)");
  kernels[Role::kEndless] = Glsl(R"(
layout(local_size_x = 1) in;
layout(binding = 0) buffer Flag { uint flag[]; };
void main() {
  while (atomicAdd(flag[0], 0u) == 0u) {
  }
}
)");
  kernels[Role::kFault] = Glsl(R"(
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
layout(local_size_x = 1) in;
layout(buffer_reference, std430, buffer_reference_align = 4) buffer Word { uint value; };
layout(binding = 0) buffer Out { uint data[]; };
layout(push_constant) uniform Parameters { uint64_t address; };
void main() {
  data[0] = 1u;
  Word(address).value = 1u;
}
)");
  kernels[Role::kCompileError] = Glsl(R"(
layout(local_size_x = 1) in;
layout(binding = 0) buffer Out { uint data[]; };
void main() { data[0] = undeclared_name; }
)");
  return kernels;
}

// The description of an installed driver; empty when there is none. Of several, lavapipe's, which has
// a device everywhere.
std::string AnyDriver() {
  std::string found;
  for (const char* directory : {"/usr/share/vulkan/icd.d", "/etc/vulkan/icd.d"}) {
    std::error_code ignored;
    for (const auto& file : std::filesystem::directory_iterator(directory, ignored)) {
      const std::string path = file.path().string();
      if (found.empty() || path.find("lvp_icd") != std::string::npos) found = path;
    }
  }
  return found;
}

}  // namespace

Backend VulkanBackend() {
  Backend backend;
  backend.name = "Vulkan";
  backend.framework = "Vulkan";
  backend.kernels = Kernels();
  backend.flag_flags = {"-std=460"};
  // lavapipe leaves every loop after 65,536 iterations, so there it takes many groups to be
  // endless.
  backend.endless_grid = {65535, 65535};
  backend.refuses_unaligned_parts = true;  // minStorageBufferOffsetAlignment
  backend.compile_architecture = "spirv";
  backend.artifact_format = "spirv";
  for (const char* variable : {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"}) {
    const char* value = std::getenv(variable);
    if (value != nullptr) backend.environment[variable] = value;
  }
  // Drivers' descriptions are files; the first one is as good as any.
  backend.driver_variable = "VK_DRIVER_FILES";
  backend.driver_place = AnyDriver();
  backend.exclusions = {
      {"PartOfABuffer.UnalignedBetweenOtherCommands",
       "Vulkan binds buffers at multiples of minStorageBufferOffsetAlignment; other offsets are "
       "refused, which AtAnyOtherOffset checks"},
      {"Launch.DynamicLocalMemory",
       "Vulkan sizes shared memory when the pipeline is made (a specialization constant)"},
      {"Compile.TemplateInstantiation", "GLSL has no templates"},
      {"CompileOnly.TemplateLoweredNames", "GLSL has no templates"},
      {"Invalidation.FamilyEventReachesTheVariant", "Vulkan has no variants"},
  };
  backend.adapt = [](const std::vector<DeviceInfo>& devices, Backend* adapted) {
    if (devices[0].is_cpu) {
      adapted->exclusions.push_back({"Queues.OneQueueDoesNotHoldUpAnother",
                                     "lavapipe has one hardware queue and runs it in order"});
    } else {
      // Seen with NVIDIA's driver 580: more than the five seconds after which a host is STUCK.
      for (const char* test : {"Faults.G13_DestroyEndsAnEndlessKernel",
                               "Faults.G8_EndlessKernelIsEndedAndOthersLive"}) {
        adapted->allowances.push_back(
            {test, "the driver of a GPU may take long to end a process whose shader never ends; until "
                   "then it is reported as STUCK, then the device is UP again"});
      }
    }
  };
  return backend;
}

}  // namespace kcache::conformance
