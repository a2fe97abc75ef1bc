// What a compute shader wants to be given, read from its SPIR-V.
//
// Arguments of an entry point, in this order:
//  1. its storage and uniform buffers, by (set, binding); an array of N buffers is N arguments.
//  Only
//     what the entry point statically uses counts, so that an optimizing and a plain compile of one
//     source agree unless the optimizer removes a use. Several variables on one (set, binding) are
//     one argument.
//  2. the members of its push-constant block, by offset, as scalars of the member's size (a vector,
//     an array or a struct member is one scalar). A launch gives either all of them or none and the
//     whole block as `push_constants`.
//
// Images, samplers and texel buffers cannot be given; `unsupported` then says which.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_BACKENDS_VULKAN_REFLECTION_H_
#define KCACHE_BACKENDS_VULKAN_REFLECTION_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/vulkan/spirv_module.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::vulkan {

struct BufferBinding {
  uint32_t set = 0;
  uint32_t binding = 0;
  uint32_t count = 1;      // > 1: an array of buffers
  bool uniform = false;    // a uniform buffer, else a storage buffer
  bool read_only = false;  // the shader never writes through it
  std::string name;
  std::string type_name;
};

struct PushConstantMember {
  uint32_t offset = 0;
  uint32_t bytes = 0;
  std::string name;
};

// One extent of the local size: fixed, or settable through a specialization constant.
struct LocalExtent {
  uint32_t value = 1;  // with the given specialization
  std::optional<uint32_t> spec_id;
};

struct ShaderEntry {
  std::string name;
  std::vector<BufferBinding> buffers;  // by (set, binding)
  uint32_t push_constant_bytes = 0;    // of the whole block; 0: none
  std::vector<PushConstantMember> push_constants;
  std::array<LocalExtent, 3> local_size;
  bool local_size_from_modes = false;  // LocalSizeId: the device needs maintenance4
  uint64_t local_memory_bytes = 0;
  bool uses_addresses = false;  // reads or writes through physical addresses
  std::string unsupported;      // why it cannot be launched; empty: it can

  // Whether all three extents can be chosen when the pipeline is made.
  bool local_size_is_free() const;
  uint32_t buffer_arguments() const;
};

struct SpecConstant {
  uint32_t id = 0;
  uint32_t bytes = 4;
  bool is_bool = false;
  std::string name;
};

// Of the entry points with execution model GLCompute. UNKNOWN_ENTRY, listing them, for another
// name.
std::vector<std::string> ComputeEntryNames(const SpirvModule& module);
absl::StatusOr<ShaderEntry> ReflectEntry(const SpirvModule& module, const std::string& name,
                                         const SpecializationValues& values = {});

std::vector<SpecConstant> SpecConstantsOf(const SpirvModule& module);

// The reflection as it is stored with an artifact.
v1::KernelInfo DescribeEntry(const ShaderEntry& entry);

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_REFLECTION_H_
