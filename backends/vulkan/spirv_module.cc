#include "backends/vulkan/spirv_module.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <spirv/unified1/spirv.hpp>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::backend::vulkan {
namespace {

constexpr size_t kHeaderWords = 5;
constexpr int kMaxDepth = 64;  // of types in types and constants in constants

absl::Status Malformed(size_t word, std::string_view what) {
  return MakeError(v1::BAD_REQUEST,
                   absl::StrCat("malformed SPIR-V at word ", word, ": ", std::string(what)));
}

// A literal string: UTF-8, nul-terminated, padded to words. `used` gets the words it takes.
std::string LiteralString(std::span<const uint32_t> words, size_t* used) {
  std::string text(reinterpret_cast<const char*>(words.data()), words.size() * sizeof(uint32_t));
  const size_t end = text.find('\0');
  if (end == std::string::npos) {
    *used = words.size();
    return text;
  }
  *used = end / sizeof(uint32_t) + 1;
  text.resize(end);
  return text;
}

// Which operands of `instruction`, inside a function, can name a module-scope variable: those that
// are pointers. Numbered as SpirvInstruction::operand does.
std::span<const uint32_t> PointerOperands(const SpirvInstruction& instruction) {
  const auto from = [&](size_t first, size_t count) -> std::span<const uint32_t> {
    const size_t begin = std::min(first, instruction.operands.size());
    return instruction.operands.subspan(begin,
                                        std::min(count, instruction.operands.size() - begin));
  };
  switch (instruction.opcode) {
    case spv::OpStore:
    case spv::OpCopyMemory:
    case spv::OpCopyMemorySized:
      return from(0, 2);
    case spv::OpAtomicStore:
    case spv::OpAtomicFlagClear:
    case spv::OpReturnValue:
    case spv::OpCooperativeMatrixStoreNV:
    case 4458:  // OpCooperativeMatrixStoreKHR
      return from(0, 1);
    case spv::OpPtrEqual:
    case spv::OpPtrNotEqual:
    case spv::OpPtrDiff:
      return from(2, 2);
    case spv::OpSelect:
      return from(3, 2);
    case spv::OpFunctionCall:
      return from(3, instruction.operands.size());
    case spv::OpPhi:
      return from(2, instruction.operands.size());
    case spv::OpLoad:
    case spv::OpAccessChain:
    case spv::OpInBoundsAccessChain:
    case spv::OpPtrAccessChain:
    case spv::OpInBoundsPtrAccessChain:
    case spv::OpArrayLength:
    case spv::OpImageTexelPointer:
    case spv::OpCopyObject:
    case spv::OpConvertPtrToU:
    case spv::OpBitcast:
    case spv::OpAtomicLoad:
    case spv::OpAtomicExchange:
    case spv::OpAtomicCompareExchange:
    case spv::OpAtomicCompareExchangeWeak:
    case spv::OpAtomicIIncrement:
    case spv::OpAtomicIDecrement:
    case spv::OpAtomicIAdd:
    case spv::OpAtomicISub:
    case spv::OpAtomicSMin:
    case spv::OpAtomicUMin:
    case spv::OpAtomicSMax:
    case spv::OpAtomicUMax:
    case spv::OpAtomicAnd:
    case spv::OpAtomicOr:
    case spv::OpAtomicXor:
    case spv::OpAtomicFlagTestAndSet:
    case spv::OpAtomicFAddEXT:
    case spv::OpAtomicFMinEXT:
    case spv::OpAtomicFMaxEXT:
    case spv::OpCooperativeMatrixLoadNV:
    case 4457:  // OpCooperativeMatrixLoadKHR
    case 5398:  // OpRawAccessChainNV
      return from(2, 1);
    default:
      return {};
  }
}

// Whether an instruction at module scope defines the id in its second operand (after a type).
bool HasResultType(uint32_t opcode) {
  switch (opcode) {
    case spv::OpUndef:
    case spv::OpConstantTrue:
    case spv::OpConstantFalse:
    case spv::OpConstant:
    case spv::OpConstantComposite:
    case spv::OpConstantNull:
    case spv::OpSpecConstantTrue:
    case spv::OpSpecConstantFalse:
    case spv::OpSpecConstant:
    case spv::OpSpecConstantComposite:
    case spv::OpSpecConstantOp:
    case spv::OpVariable:
      return true;
    default:
      return false;
  }
}

bool IsTypeDefinition(uint32_t opcode) {
  return (opcode >= spv::OpTypeVoid && opcode <= spv::OpTypePipe) ||
         opcode == spv::OpTypeCooperativeMatrixNV ||
         opcode == spv::OpTypeAccelerationStructureKHR ||
         opcode == 4456 /* OpTypeCooperativeMatrixKHR */;
}

const SpirvDecoration* Find(const std::vector<SpirvDecoration>& list, uint32_t decoration) {
  for (const SpirvDecoration& one : list) {
    if (one.decoration == decoration) return &one;
  }
  return nullptr;
}

}  // namespace

absl::StatusOr<SpirvModule> SpirvModule::Parse(std::string_view binary) {
  if (binary.size() % sizeof(uint32_t) != 0 || binary.size() < kHeaderWords * sizeof(uint32_t)) {
    return MakeError(v1::BAD_REQUEST, absl::StrCat("SPIR-V is a stream of 32-bit words with a "
                                                   "header of five; this has ",
                                                   binary.size(), " bytes"));
  }
  SpirvModule module;
  module.words_.resize(binary.size() / sizeof(uint32_t));
  std::memcpy(module.words_.data(), binary.data(), binary.size());
  if (module.words_[0] != spv::MagicNumber) {
    return MakeError(v1::BAD_REQUEST,
                     absl::StrCat("not SPIR-V in this machine's byte order: the magic number is ",
                                  absl::Hex(module.words_[0])));
  }
  for (size_t word = kHeaderWords; word < module.words_.size();) {
    const uint32_t head = module.words_[word];
    const size_t length = head >> spv::WordCountShift;
    if (length == 0 || length > module.words_.size() - word) {
      return Malformed(word, absl::StrCat("an instruction of ", length, " words, ",
                                          module.words_.size() - word, " are left"));
    }
    const SpirvInstruction instruction = {
        head & spv::OpCodeMask,
        std::span<const uint32_t>(module.words_).subspan(word + 1, length - 1)};
    absl::Status read = module.Read(instruction, word);
    if (!read.ok()) return read;
    word += length;
  }
  if (module.current_function_ != 0) {
    return Malformed(module.words_.size(), "the last function has no end");
  }
  return module;
}

absl::Status SpirvModule::Read(const SpirvInstruction& instruction, size_t word) {
  const auto need = [&](size_t operands) {
    return instruction.operands.size() >= operands
               ? absl::OkStatus()
               : Malformed(word, absl::StrCat("opcode ", instruction.opcode, " has ",
                                              instruction.operands.size(), " operands, ", operands,
                                              " are needed"));
  };
  if (current_function_ != 0) {
    if (instruction.opcode == spv::OpFunctionEnd) {
      current_function_ = 0;
    } else {
      ReadInFunction(instruction);
    }
    return absl::OkStatus();
  }
  size_t used = 0;
  switch (instruction.opcode) {
    case spv::OpCapability:
      capabilities_.push_back(instruction.operand(0));
      return need(1);
    case spv::OpEntryPoint: {
      absl::Status enough = need(3);
      if (!enough.ok()) return enough;
      entry_points_.push_back({instruction.operand(0), instruction.operand(1),
                               LiteralString(instruction.operands.subspan(2), &used)});
      return absl::OkStatus();
    }
    case spv::OpExecutionMode:
    case spv::OpExecutionModeId:
      execution_modes_.push_back(instruction);
      return need(2);
    case spv::OpName: {
      absl::Status enough = need(2);
      if (!enough.ok()) return enough;
      names_[instruction.operand(0)] = LiteralString(instruction.operands.subspan(1), &used);
      return absl::OkStatus();
    }
    case spv::OpMemberName: {
      absl::Status enough = need(3);
      if (!enough.ok()) return enough;
      member_names_[{instruction.operand(0), instruction.operand(1)}] =
          LiteralString(instruction.operands.subspan(2), &used);
      return absl::OkStatus();
    }
    case spv::OpDecorate: {
      absl::Status enough = need(2);
      if (!enough.ok()) return enough;
      const auto literals = instruction.operands.subspan(2);
      decorations_[instruction.operand(0)].push_back(
          {instruction.operand(1), {literals.begin(), literals.end()}});
      return absl::OkStatus();
    }
    case spv::OpMemberDecorate: {
      absl::Status enough = need(3);
      if (!enough.ok()) return enough;
      const auto literals = instruction.operands.subspan(3);
      member_decorations_[{instruction.operand(0), instruction.operand(1)}].push_back(
          {instruction.operand(2), {literals.begin(), literals.end()}});
      return absl::OkStatus();
    }
    case spv::OpFunction: {
      absl::Status enough = need(4);
      if (!enough.ok()) return enough;
      current_function_ = instruction.operand(1);
      if (current_function_ == 0) return Malformed(word, "a function with the id 0");
      functions_[current_function_];
      return absl::OkStatus();
    }
    default:
      break;
  }
  uint32_t id = 0;
  if (HasResultType(instruction.opcode)) {
    absl::Status enough = need(2);
    if (!enough.ok()) return enough;
    id = instruction.operand(1);
  } else if (IsTypeDefinition(instruction.opcode)) {
    absl::Status enough = need(1);
    if (!enough.ok()) return enough;
    id = instruction.operand(0);
  }
  if (id != 0 && definitions_.emplace(id, instruction).second) global_ids_.push_back(id);
  return absl::OkStatus();
}

void SpirvModule::ReadInFunction(const SpirvInstruction& instruction) {
  SpirvFunction& function = functions_[current_function_];
  if (instruction.opcode == spv::OpFunctionCall) function.callees.push_back(instruction.operand(2));
  for (const uint32_t id : PointerOperands(instruction)) {
    const SpirvInstruction* definition = Definition(id);
    if (definition != nullptr && definition->opcode == spv::OpVariable) {
      function.variables.push_back(id);
    }
  }
}

bool SpirvModule::HasCapability(uint32_t capability) const {
  return std::find(capabilities_.begin(), capabilities_.end(), capability) != capabilities_.end();
}

const SpirvInstruction* SpirvModule::Definition(uint32_t id) const {
  const auto found = definitions_.find(id);
  return found != definitions_.end() ? &found->second : nullptr;
}

std::string_view SpirvModule::Name(uint32_t id) const {
  const auto found = names_.find(id);
  return found != names_.end() ? std::string_view(found->second) : std::string_view();
}

std::string_view SpirvModule::MemberName(uint32_t id, uint32_t member) const {
  const auto found = member_names_.find({id, member});
  return found != member_names_.end() ? std::string_view(found->second) : std::string_view();
}

bool SpirvModule::HasDecoration(uint32_t id, uint32_t decoration) const {
  const auto found = decorations_.find(id);
  return found != decorations_.end() && Find(found->second, decoration) != nullptr;
}

std::optional<uint32_t> SpirvModule::DecorationLiteral(uint32_t id, uint32_t decoration) const {
  const auto found = decorations_.find(id);
  if (found == decorations_.end()) return std::nullopt;
  const SpirvDecoration* one = Find(found->second, decoration);
  if (one == nullptr || one->literals.empty()) return std::nullopt;
  return one->literals[0];
}

bool SpirvModule::HasMemberDecoration(uint32_t id, uint32_t member, uint32_t decoration) const {
  const auto found = member_decorations_.find({id, member});
  return found != member_decorations_.end() && Find(found->second, decoration) != nullptr;
}

std::optional<uint32_t> SpirvModule::MemberDecorationLiteral(uint32_t id, uint32_t member,
                                                             uint32_t decoration) const {
  const auto found = member_decorations_.find({id, member});
  if (found == member_decorations_.end()) return std::nullopt;
  const SpirvDecoration* one = Find(found->second, decoration);
  if (one == nullptr || one->literals.empty()) return std::nullopt;
  return one->literals[0];
}

std::vector<std::pair<uint32_t, std::span<const uint32_t>>> SpirvModule::ExecutionModes(
    uint32_t function) const {
  std::vector<std::pair<uint32_t, std::span<const uint32_t>>> modes;
  for (const SpirvInstruction& mode : execution_modes_) {
    if (mode.operand(0) == function) {
      modes.emplace_back(mode.operand(1), mode.operands.subspan(2));
    }
  }
  return modes;
}

std::vector<uint32_t> SpirvModule::VariablesUsedBy(uint32_t function) const {
  std::set<uint32_t> visited;
  std::set<uint32_t> variables;
  std::vector<uint32_t> open = {function};
  while (!open.empty()) {
    const uint32_t next = open.back();
    open.pop_back();
    const auto found = functions_.find(next);
    if (found == functions_.end() || !visited.insert(next).second) continue;
    variables.insert(found->second.variables.begin(), found->second.variables.end());
    open.insert(open.end(), found->second.callees.begin(), found->second.callees.end());
  }
  return {variables.begin(), variables.end()};
}

std::optional<uint64_t> SpirvModule::Constant(uint32_t id,
                                              const SpecializationValues& values) const {
  return ConstantAt(id, values, 0);
}

uint32_t SpirvModule::WidthOf(uint32_t type) const {
  const SpirvInstruction* definition = Definition(type);
  if (definition == nullptr) return 0;
  switch (definition->opcode) {
    case spv::OpTypeBool:
      return 32;  // as a specialization constant: VkBool32
    case spv::OpTypeInt:
    case spv::OpTypeFloat:
      return definition->operand(1);
    default:
      return 0;
  }
}

std::optional<uint64_t> SpirvModule::ConstantAt(uint32_t id, const SpecializationValues& values,
                                                int depth) const {
  const SpirvInstruction* definition = Definition(id);
  if (definition == nullptr || depth > kMaxDepth) return std::nullopt;
  switch (definition->opcode) {
    case spv::OpSpecConstantTrue:
    case spv::OpSpecConstantFalse:
    case spv::OpSpecConstant:
      if (const auto spec_id = DecorationLiteral(id, spv::DecorationSpecId)) {
        const auto given = values.find(*spec_id);
        if (given != values.end()) return given->second;
      }
      break;
    default:
      break;
  }
  switch (definition->opcode) {
    case spv::OpConstantTrue:
    case spv::OpSpecConstantTrue:
      return 1;
    case spv::OpConstantFalse:
    case spv::OpSpecConstantFalse:
    case spv::OpConstantNull:
      return 0;
    case spv::OpConstant:
    case spv::OpSpecConstant: {
      uint64_t value = definition->operand(2);
      if (WidthOf(definition->operand(0)) == 64) {
        value |= static_cast<uint64_t>(definition->operand(3)) << 32;
      }
      return value;
    }
    case spv::OpSpecConstantOp:
      return Operation(*definition, values, depth);
    default:
      return std::nullopt;
  }
}

// The 32-bit unsigned arithmetic that array lengths and local sizes are computed with.
std::optional<uint64_t> SpirvModule::Operation(const SpirvInstruction& definition,
                                               const SpecializationValues& values,
                                               int depth) const {
  const auto argument = [&](size_t n) {
    return ConstantAt(definition.operand(3 + n), values, depth + 1);
  };
  const auto a = argument(0);
  if (!a) return std::nullopt;
  const uint32_t opcode = definition.operand(2);
  if (opcode == spv::OpSelect) return *a != 0 ? argument(1) : argument(2);
  const auto b = argument(1);
  if (!b) return std::nullopt;
  if (WidthOf(definition.operand(0)) != 32) return std::nullopt;
  const auto x = static_cast<uint32_t>(*a), y = static_cast<uint32_t>(*b);
  const auto sx = static_cast<int32_t>(x), sy = static_cast<int32_t>(y);
  switch (opcode) {
    case spv::OpIAdd:
      return x + y;
    case spv::OpISub:
      return x - y;
    case spv::OpIMul:
      return x * y;
    case spv::OpUDiv:
      return y != 0 ? std::optional<uint64_t>(x / y) : std::nullopt;
    case spv::OpUMod:
      return y != 0 ? std::optional<uint64_t>(x % y) : std::nullopt;
    case spv::OpSDiv:
      if (sx < 0 || sy <= 0) return std::nullopt;
      return x / y;
    case spv::OpSRem:
    case spv::OpSMod:
      if (sx < 0 || sy <= 0) return std::nullopt;
      return x % y;
    case spv::OpShiftLeftLogical:
      return y < 32 ? std::optional<uint64_t>(x << y) : std::nullopt;
    case spv::OpShiftRightLogical:
      return y < 32 ? std::optional<uint64_t>(x >> y) : std::nullopt;
    case spv::OpBitwiseAnd:
      return x & y;
    case spv::OpBitwiseOr:
      return x | y;
    case spv::OpBitwiseXor:
      return x ^ y;
    case spv::OpIEqual:
      return x == y;
    case spv::OpINotEqual:
      return x != y;
    case spv::OpULessThan:
      return x < y;
    case spv::OpUGreaterThan:
      return x > y;
    case spv::OpULessThanEqual:
      return x <= y;
    case spv::OpUGreaterThanEqual:
      return x >= y;
    case spv::OpSLessThan:
      return sx < sy;
    case spv::OpSGreaterThan:
      return sx > sy;
    case spv::OpSLessThanEqual:
      return sx <= sy;
    case spv::OpSGreaterThanEqual:
      return sx >= sy;
    default:
      return std::nullopt;
  }
}

std::optional<uint64_t> SpirvModule::SizeOf(uint32_t type,
                                            const SpecializationValues& values) const {
  return SizeAt(type, values, 0);
}

std::optional<uint64_t> SpirvModule::SizeAt(uint32_t type, const SpecializationValues& values,
                                            int depth) const {
  const SpirvInstruction* definition = Definition(type);
  if (definition == nullptr || depth > kMaxDepth) return std::nullopt;
  constexpr uint64_t kLimit = uint64_t{1} << 40;  // keeps products of sizes from overflowing
  switch (definition->opcode) {
    case spv::OpTypeBool:
      return 4;
    case spv::OpTypeInt:
    case spv::OpTypeFloat:
      return definition->operand(1) / 8;
    case spv::OpTypePointer:
      return 8;  // a physical address: no other pointer is ever in memory
    case spv::OpTypeVector:
    case spv::OpTypeMatrix: {
      const auto element = SizeAt(definition->operand(1), values, depth + 1);
      if (!element) return std::nullopt;
      const uint64_t bytes = *element * definition->operand(2);
      return bytes <= kLimit ? std::optional(bytes) : std::nullopt;
    }
    case spv::OpTypeArray: {
      const auto length = ConstantAt(definition->operand(2), values, depth + 1);
      const auto stride = DecorationLiteral(type, spv::DecorationArrayStride);
      const auto element = stride ? std::optional<uint64_t>(*stride)
                                  : SizeAt(definition->operand(1), values, depth + 1);
      if (!length || !element || *length > kLimit || *element > kLimit) return std::nullopt;
      if (*element != 0 && *length > kLimit / *element) return std::nullopt;
      return *length * *element;
    }
    case spv::OpTypeStruct: {
      uint64_t end = 0;
      for (uint32_t member = 0; member + 1 < definition->operands.size(); ++member) {
        const uint32_t member_type = definition->operand(member + 1);
        auto bytes = SizeAt(member_type, values, depth + 1);
        if (!bytes) return std::nullopt;
        const auto offset = MemberDecorationLiteral(type, member, spv::DecorationOffset);
        const auto stride = MemberDecorationLiteral(type, member, spv::DecorationMatrixStride);
        const SpirvInstruction* inner = Definition(member_type);
        if (stride && inner != nullptr && inner->opcode == spv::OpTypeMatrix) {
          const SpirvInstruction* column = Definition(inner->operand(1));
          const bool row_major = HasMemberDecoration(type, member, spv::DecorationRowMajor);
          const uint32_t count =
              row_major && column != nullptr ? column->operand(2) : inner->operand(2);
          bytes = uint64_t{*stride} * count;
        }
        end = std::max(end, (offset ? *offset : end) + *bytes);
        if (end > kLimit) return std::nullopt;
      }
      return end;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace kcache::backend::vulkan
