// A SPIR-V module as far as this backend has to understand it: its definitions by id, with
// decorations, names and constants.
//
// Every index into the words is checked: a module that is cut off or contradicts itself is an
// error, never an access beyond it. Whether it is valid SPIR-V is the validator's business.
//
// Threads: immutable after Parse; any thread. Ownership: owns a copy of the words.

#ifndef KCACHE_BACKENDS_VULKAN_SPIRV_MODULE_H_
#define KCACHE_BACKENDS_VULKAN_SPIRV_MODULE_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace kcache::backend::vulkan {

// constant_id → value, for OpSpecConstants. Values are little-endian in the low bytes.
using SpecializationValues = std::map<uint32_t, uint64_t>;

// One instruction: operands are the words after the opcode word.
struct SpirvInstruction {
  uint32_t opcode = 0;
  std::span<const uint32_t> operands;

  // The n-th operand, or 0, which is no valid id.
  uint32_t operand(size_t n) const { return n < operands.size() ? operands[n] : 0; }
};

struct SpirvDecoration {
  uint32_t decoration = 0;
  std::vector<uint32_t> literals;
};

struct SpirvEntryPoint {
  uint32_t execution_model = 0;
  uint32_t function = 0;
  std::string name;
};

struct SpirvFunction {
  std::vector<uint32_t> callees;
  std::vector<uint32_t> variables;  // module-scope variables it names
};

class SpirvModule {
 public:
  // BAD_REQUEST, naming the word, for anything that is not a well-formed stream of instructions.
  static absl::StatusOr<SpirvModule> Parse(std::string_view binary);

  SpirvModule(SpirvModule&&) = default;
  SpirvModule& operator=(SpirvModule&&) = default;

  std::span<const uint32_t> words() const { return words_; }
  uint32_t version() const { return words_[1]; }
  const std::vector<SpirvEntryPoint>& entry_points() const { return entry_points_; }
  const std::vector<uint32_t>& capabilities() const { return capabilities_; }
  bool HasCapability(uint32_t capability) const;

  // The instruction that defines `id` at module scope; null when there is none.
  const SpirvInstruction* Definition(uint32_t id) const;
  // Ids with a definition at module scope, in the order of the module.
  const std::vector<uint32_t>& global_ids() const { return global_ids_; }

  std::string_view Name(uint32_t id) const;
  std::string_view MemberName(uint32_t id, uint32_t member) const;
  bool HasDecoration(uint32_t id, uint32_t decoration) const;
  std::optional<uint32_t> DecorationLiteral(uint32_t id, uint32_t decoration) const;
  bool HasMemberDecoration(uint32_t id, uint32_t member, uint32_t decoration) const;
  std::optional<uint32_t> MemberDecorationLiteral(uint32_t id, uint32_t member,
                                                  uint32_t decoration) const;

  // Execution modes of an entry point's function: (mode, operands), literals and ids alike.
  std::vector<std::pair<uint32_t, std::span<const uint32_t>>> ExecutionModes(
      uint32_t function) const;

  // Module-scope variables that `function` and everything it calls name, each once.
  std::vector<uint32_t> VariablesUsedBy(uint32_t function) const;

  // The value of an integer or boolean constant, specialized; nothing when it is no such constant
  // or computed in a way this reader does not know.
  std::optional<uint64_t> Constant(uint32_t id, const SpecializationValues& values) const;

  // Bytes of a value of type `id` as laid out in memory; nothing when it has no fixed size.
  std::optional<uint64_t> SizeOf(uint32_t type, const SpecializationValues& values) const;

 private:
  SpirvModule() = default;

  absl::Status Read(const SpirvInstruction& instruction, size_t word);
  void ReadInFunction(const SpirvInstruction& instruction);
  std::optional<uint64_t> ConstantAt(uint32_t id, const SpecializationValues& values,
                                     int depth) const;
  std::optional<uint64_t> Operation(const SpirvInstruction& definition,
                                    const SpecializationValues& values, int depth) const;
  std::optional<uint64_t> SizeAt(uint32_t type, const SpecializationValues& values,
                                 int depth) const;
  uint32_t WidthOf(uint32_t type) const;

  std::vector<uint32_t> words_;
  std::vector<uint32_t> capabilities_;
  std::vector<SpirvEntryPoint> entry_points_;
  std::unordered_map<uint32_t, SpirvInstruction> definitions_;
  std::vector<uint32_t> global_ids_;
  std::unordered_map<uint32_t, std::string> names_;
  std::map<std::pair<uint32_t, uint32_t>, std::string> member_names_;
  std::unordered_map<uint32_t, std::vector<SpirvDecoration>> decorations_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<SpirvDecoration>> member_decorations_;
  std::vector<SpirvInstruction> execution_modes_;
  std::map<uint32_t, SpirvFunction> functions_;
  uint32_t current_function_ = 0;  // while parsing
};

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_SPIRV_MODULE_H_
