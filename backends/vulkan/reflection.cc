#include "backends/vulkan/reflection.h"

#include <algorithm>
#include <spirv/unified1/spirv.hpp>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::vulkan {
namespace {

// A descriptor array longer than this is no argument list.
constexpr uint64_t kMaxDescriptorArray = 1024;

std::string FirstGiven(std::string_view a, std::string_view b) {
  return ToValidUtf8(!a.empty() ? a : b);
}

bool IsReadOnly(const SpirvModule& module, uint32_t variable, uint32_t block,
                const SpirvInstruction& block_type) {
  if (module.HasDecoration(variable, spv::DecorationNonWritable)) return true;
  const size_t members = block_type.operands.size() - 1;
  for (uint32_t member = 0; member < members; ++member) {
    if (!module.HasMemberDecoration(block, member, spv::DecorationNonWritable)) return false;
  }
  return members > 0;
}

void AddBuffer(ShaderEntry* entry, BufferBinding buffer) {
  for (BufferBinding& known : entry->buffers) {
    if (known.set != buffer.set || known.binding != buffer.binding) continue;
    // Another view of the same memory.
    known.read_only = known.read_only && buffer.read_only;
    known.count = std::max(known.count, buffer.count);
    if (known.uniform != buffer.uniform) {
      entry->unsupported = absl::StrCat("set ", buffer.set, " binding ", buffer.binding,
                                        " is both a uniform and a storage buffer");
    }
    return;
  }
  entry->buffers.push_back(std::move(buffer));
}

// Adds a variable of storage class Uniform, StorageBuffer or UniformConstant.
void ReadResource(const SpirvModule& module, uint32_t variable, uint32_t storage_class,
                  uint32_t pointee, const SpecializationValues& values, ShaderEntry* entry) {
  BufferBinding buffer;
  buffer.set = module.DecorationLiteral(variable, spv::DecorationDescriptorSet).value_or(0);
  buffer.binding = module.DecorationLiteral(variable, spv::DecorationBinding).value_or(0);
  const std::string where = absl::StrCat("set ", buffer.set, " binding ", buffer.binding);
  const SpirvInstruction* type = module.Definition(pointee);
  if (type != nullptr && type->opcode == spv::OpTypeArray) {
    const uint64_t count = module.Constant(type->operand(2), values).value_or(0);
    pointee = type->operand(1);
    type = module.Definition(pointee);
    if (count == 0 || count > kMaxDescriptorArray) {
      entry->unsupported = absl::StrCat(where, " is an array of ", count, " buffers; 1 to ",
                                        kMaxDescriptorArray, " are possible");
      return;
    }
    buffer.count = static_cast<uint32_t>(count);
  }
  if (storage_class == spv::StorageClassUniformConstant || type == nullptr ||
      type->opcode != spv::OpTypeStruct) {
    entry->unsupported = absl::StrCat(where, " (", ToValidUtf8(module.Name(variable)),
                                      ") is no buffer: images, samplers, texel buffers and arrays "
                                      "without a length cannot be bound");
    return;
  }
  buffer.uniform = storage_class == spv::StorageClassUniform &&
                   !module.HasDecoration(pointee, spv::DecorationBufferBlock);
  buffer.read_only = buffer.uniform || IsReadOnly(module, variable, pointee, *type);
  buffer.name = FirstGiven(module.Name(variable), module.Name(pointee));
  buffer.type_name = ToValidUtf8(module.Name(pointee));
  AddBuffer(entry, std::move(buffer));
}

void ReadPushConstants(const SpirvModule& module, uint32_t block,
                       const SpecializationValues& values, ShaderEntry* entry) {
  const SpirvInstruction* type = module.Definition(block);
  const auto bytes = module.SizeOf(block, values);
  if (type == nullptr || type->opcode != spv::OpTypeStruct || !bytes || *bytes > UINT32_MAX) {
    entry->unsupported = "the push-constant block has no fixed size";
    return;
  }
  // vkCmdPushConstants takes multiples of four.
  entry->push_constant_bytes = static_cast<uint32_t>((*bytes + 3) / 4 * 4);
  for (uint32_t member = 0; member + 1 < type->operands.size(); ++member) {
    PushConstantMember constant;
    constant.offset =
        module.MemberDecorationLiteral(block, member, spv::DecorationOffset).value_or(0);
    constant.bytes =
        static_cast<uint32_t>(module.SizeOf(type->operand(member + 1), values).value_or(0));
    constant.name = ToValidUtf8(module.MemberName(block, member));
    entry->push_constants.push_back(std::move(constant));
  }
  std::stable_sort(entry->push_constants.begin(), entry->push_constants.end(),
                   [](const auto& a, const auto& b) { return a.offset < b.offset; });
}

LocalExtent ExtentOf(const SpirvModule& module, uint32_t constant,
                     const SpecializationValues& values) {
  LocalExtent extent;
  extent.value = static_cast<uint32_t>(module.Constant(constant, values).value_or(0));
  const SpirvInstruction* definition = module.Definition(constant);
  if (definition != nullptr && definition->opcode == spv::OpSpecConstant) {
    extent.spec_id = module.DecorationLiteral(constant, spv::DecorationSpecId);
  }
  return extent;
}

// The WorkgroupSize built-in wins over the execution modes, as the Vulkan specification says.
absl::Status ReadLocalSize(const SpirvModule& module, uint32_t function,
                           const SpecializationValues& values, ShaderEntry* entry) {
  bool found = false;
  for (const auto& [mode, operands] : module.ExecutionModes(function)) {
    if (operands.size() < 3) continue;
    if (mode == spv::ExecutionModeLocalSize) {
      for (size_t i = 0; i < 3; ++i) entry->local_size[i] = {operands[i], std::nullopt};
      found = true;
    } else if (mode == spv::ExecutionModeLocalSizeId) {
      for (size_t i = 0; i < 3; ++i) entry->local_size[i] = ExtentOf(module, operands[i], values);
      entry->local_size_from_modes = true;
      found = true;
    }
  }
  for (const uint32_t id : module.global_ids()) {
    if (module.DecorationLiteral(id, spv::DecorationBuiltIn) != spv::BuiltInWorkgroupSize) continue;
    const SpirvInstruction* composite = module.Definition(id);
    if (composite->operands.size() < 5) continue;
    for (size_t i = 0; i < 3; ++i) {
      entry->local_size[i] = ExtentOf(module, composite->operand(2 + i), values);
    }
    entry->local_size_from_modes = false;
    found = true;
  }
  for (const LocalExtent& extent : entry->local_size) found = found && extent.value != 0;
  if (found) return absl::OkStatus();
  return MakeError(v1::BAD_REQUEST, absl::StrCat("entry point ", Quoted(entry->name),
                                                 " declares no local size, or one that is zero"));
}

}  // namespace

bool ShaderEntry::local_size_is_free() const {
  return std::all_of(local_size.begin(), local_size.end(),
                     [](const LocalExtent& extent) { return extent.spec_id.has_value(); });
}

uint32_t ShaderEntry::buffer_arguments() const {
  uint32_t count = 0;
  for (const BufferBinding& buffer : buffers) count += buffer.count;
  return count;
}

std::vector<std::string> ComputeEntryNames(const SpirvModule& module) {
  std::vector<std::string> names;
  for (const SpirvEntryPoint& entry : module.entry_points()) {
    if (entry.execution_model == spv::ExecutionModelGLCompute) names.push_back(entry.name);
  }
  return names;
}

absl::StatusOr<ShaderEntry> ReflectEntry(const SpirvModule& module, const std::string& name,
                                         const SpecializationValues& values) {
  const SpirvEntryPoint* found = nullptr;
  for (const SpirvEntryPoint& entry : module.entry_points()) {
    if (entry.execution_model == spv::ExecutionModelGLCompute && entry.name == name) found = &entry;
  }
  if (found == nullptr) {
    return MakeError(v1::UNKNOWN_ENTRY,
                     absl::StrCat("no compute entry point ", Quoted(name),
                                  "; there are: ", absl::StrJoin(ComputeEntryNames(module), ", ")));
  }
  ShaderEntry entry;
  entry.name = name;
  absl::Status local = ReadLocalSize(module, found->function, values, &entry);
  if (!local.ok()) return local;
  for (const uint32_t variable : module.VariablesUsedBy(found->function)) {
    const SpirvInstruction* definition = module.Definition(variable);
    const uint32_t storage_class = definition->operand(2);
    const SpirvInstruction* pointer = module.Definition(definition->operand(0));
    if (pointer == nullptr || pointer->opcode != spv::OpTypePointer) {
      return MakeError(v1::BAD_REQUEST,
                       absl::StrCat("malformed SPIR-V: variable ", variable, " is no pointer"));
    }
    const uint32_t pointee = pointer->operand(2);
    switch (storage_class) {
      case spv::StorageClassUniform:
      case spv::StorageClassStorageBuffer:
      case spv::StorageClassUniformConstant:
        ReadResource(module, variable, storage_class, pointee, values, &entry);
        break;
      case spv::StorageClassPushConstant:
        ReadPushConstants(module, pointee, values, &entry);
        break;
      case spv::StorageClassWorkgroup:
        entry.local_memory_bytes += module.SizeOf(pointee, values).value_or(0);
        break;
      default:
        break;
    }
  }
  std::sort(entry.buffers.begin(), entry.buffers.end(), [](const auto& a, const auto& b) {
    return std::tie(a.set, a.binding) < std::tie(b.set, b.binding);
  });
  entry.uses_addresses = module.HasCapability(spv::CapabilityPhysicalStorageBufferAddresses);
  return entry;
}

std::vector<SpecConstant> SpecConstantsOf(const SpirvModule& module) {
  std::vector<SpecConstant> constants;
  for (const uint32_t id : module.global_ids()) {
    const auto spec_id = module.DecorationLiteral(id, spv::DecorationSpecId);
    if (!spec_id) continue;
    const SpirvInstruction* definition = module.Definition(id);
    SpecConstant constant;
    constant.id = *spec_id;
    constant.is_bool = definition->opcode == spv::OpSpecConstantTrue ||
                       definition->opcode == spv::OpSpecConstantFalse;
    constant.bytes = static_cast<uint32_t>(module.SizeOf(definition->operand(0), {}).value_or(4));
    constant.name = ToValidUtf8(module.Name(id));
    constants.push_back(std::move(constant));
  }
  std::sort(constants.begin(), constants.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return constants;
}

v1::KernelInfo DescribeEntry(const ShaderEntry& entry) {
  v1::KernelInfo info;
  info.set_entry(entry.name);
  info.set_lowered_name(entry.name);
  info.set_arguments_known(entry.unsupported.empty());
  for (const BufferBinding& buffer : entry.buffers) {
    for (uint32_t i = 0; i < buffer.count; ++i) {
      v1::ArgumentInfo* argument = info.add_arguments();
      argument->set_kind(v1::ARGUMENT_BUFFER);
      argument->set_binding(buffer.binding);
      argument->set_name(buffer.count > 1 ? absl::StrCat(buffer.name, "[", i, "]") : buffer.name);
      argument->set_type_name(buffer.type_name);
    }
  }
  for (const PushConstantMember& member : entry.push_constants) {
    v1::ArgumentInfo* argument = info.add_arguments();
    argument->set_kind(v1::ARGUMENT_SCALAR);
    argument->set_bytes(member.bytes);
    argument->set_offset(member.offset);
    argument->set_name(member.name);
  }
  info.set_push_constant_bytes(entry.push_constant_bytes);
  info.set_local_memory_bytes(entry.local_memory_bytes);
  if (!entry.local_size_is_free()) {
    info.mutable_required_local_size()->set_x(entry.local_size[0].value);
    info.mutable_required_local_size()->set_y(entry.local_size[1].value);
    info.mutable_required_local_size()->set_z(entry.local_size[2].value);
  }
  return info;
}

}  // namespace kcache::backend::vulkan
