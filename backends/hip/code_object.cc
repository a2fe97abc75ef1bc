#include "backends/hip/code_object.h"

#include <elf.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cudalike/elf_view.h"
#include "backends/hip/msgpack.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::hip {
namespace {

using cudalike::ElfView;
using cudalike::ReadInteger;

constexpr uint16_t kMachineAmdGpu = 224;  // EM_AMDGPU
constexpr uint8_t kOsAbiAmdHsa = 64;      // ELFOSABI_AMDGPU_HSA
constexpr uint32_t kNoteMetadata = 32;    // NT_AMDGPU_METADATA
constexpr std::string_view kNoteOwner = "AMDGPU";
constexpr std::string_view kTargetPrefix = "amdgcn-amd-amdhsa--";
constexpr std::string_view kDescriptorSuffix = ".kd";
constexpr std::string_view kHiddenPrefix = "hidden_";

// EF_AMDGPU_MACH of e_flags, for code objects whose metadata does not name their target (version
// 3).
constexpr std::array<std::pair<uint32_t, std::string_view>, 18> kMachines = {{
    {0x02c, "gfx900"},
    {0x02f, "gfx906"},
    {0x030, "gfx908"},
    {0x033, "gfx1010"},
    {0x034, "gfx1011"},
    {0x035, "gfx1012"},
    {0x036, "gfx1030"},
    {0x037, "gfx1031"},
    {0x038, "gfx1032"},
    {0x03f, "gfx90a"},
    {0x040, "gfx940"},
    {0x041, "gfx1100"},
    {0x046, "gfx1101"},
    {0x047, "gfx1102"},
    {0x04c, "gfx942"},
    {0x032, "gfx90c"},
    {0x048, "gfx1200"},
    {0x04e, "gfx1201"},
}};

absl::Status Malformed(std::string_view what) {
  return MakeError(v1::BAD_REQUEST, absl::StrCat("code object: ", AbslView(what)));
}

// The description of the metadata note, among the notes of one section.
std::optional<std::string_view> MetadataOf(std::string_view notes) {
  constexpr size_t kHeaderBytes = 12;
  const auto aligned = [](size_t bytes) { return (bytes + 3) & ~size_t{3}; };
  for (size_t at = 0; at + kHeaderBytes <= notes.size();) {
    const size_t name_bytes = ReadInteger<uint32_t>(notes, at);
    const size_t bytes = ReadInteger<uint32_t>(notes, at + 4);
    const uint32_t type = ReadInteger<uint32_t>(notes, at + 8);
    at += kHeaderBytes;
    if (name_bytes > notes.size() - at) break;
    const std::string_view owner = notes.substr(at, name_bytes);
    at = std::min(at + aligned(name_bytes), notes.size());
    if (bytes > notes.size() - at) break;
    if (type == kNoteMetadata && owner.starts_with(kNoteOwner)) return notes.substr(at, bytes);
    at = std::min(at + aligned(bytes), notes.size());
  }
  return std::nullopt;
}

v1::ArgumentKind KindOf(std::string_view value_kind) {
  if (value_kind == "by_value") return v1::ARGUMENT_SCALAR;
  if (value_kind == "global_buffer") return v1::ARGUMENT_BUFFER;
  if (value_kind == "dynamic_shared_pointer") return v1::ARGUMENT_LOCAL_MEMORY;
  if (value_kind == "image") return v1::ARGUMENT_IMAGE;
  if (value_kind == "sampler") return v1::ARGUMENT_SAMPLER;
  return v1::ARGUMENT_KIND_UNSPECIFIED;
}

v1::KernelInfo ReadKernel(const MsgpackValue& metadata) {
  v1::KernelInfo kernel;
  kernel.set_lowered_name(std::string(metadata.String(".name")));
  kernel.set_local_memory_bytes(metadata.Integer(".group_segment_fixed_size"));
  kernel.set_private_memory_bytes(metadata.Integer(".private_segment_fixed_size"));
  kernel.set_max_local_size(static_cast<uint32_t>(metadata.Integer(".max_flat_workgroup_size")));
  kernel.set_registers(static_cast<uint32_t>(metadata.Integer(".vgpr_count")));
  const MsgpackValue* required = metadata.Find(".reqd_workgroup_size");
  if (required != nullptr && required->array.size() == 3) {
    kernel.mutable_required_local_size()->set_x(static_cast<uint32_t>(required->array[0].integer));
    kernel.mutable_required_local_size()->set_y(static_cast<uint32_t>(required->array[1].integer));
    kernel.mutable_required_local_size()->set_z(static_cast<uint32_t>(required->array[2].integer));
  }
  if (const MsgpackValue* arguments = metadata.Find(".args")) {
    for (const MsgpackValue& described : arguments->array) {
      const std::string_view kind = described.String(".value_kind");
      if (kind.starts_with(kHiddenPrefix)) continue;  // the runtime fills these in
      v1::ArgumentInfo* argument = kernel.add_arguments();
      argument->set_kind(KindOf(kind));
      argument->set_bytes(described.Integer(".size"));
      argument->set_offset(described.Integer(".offset"));
      argument->set_name(std::string(described.String(".name")));
      argument->set_type_name(std::string(described.String(".type_name")));
    }
  }
  kernel.set_arguments_known(true);
  return kernel;
}

std::string TargetOf(const ElfView& elf, const MsgpackValue& metadata) {
  const std::string_view target = metadata.String("amdhsa.target");
  if (target.starts_with(kTargetPrefix)) return std::string(target.substr(kTargetPrefix.size()));
  for (const auto& [machine, name] : kMachines) {
    if ((elf.flags() & 0xff) == machine) return std::string(name);
  }
  return "";
}

}  // namespace

std::string_view ProcessorOf(std::string_view target) { return target.substr(0, target.find(':')); }

absl::StatusOr<CodeObject> ReadCodeObject(std::string_view file) {
  absl::StatusOr<ElfView> elf = ElfView::Parse(file);
  if (!elf.ok()) return Malformed(StdView(elf.status().message()));
  if (elf->machine() != kMachineAmdGpu || elf->os_abi() != kOsAbiAmdHsa) {
    return Malformed(absl::StrCat("ELF machine ", elf->machine(), " with ABI ", elf->os_abi(),
                                  ", AMD's GPUs have ", kMachineAmdGpu, " with ", kOsAbiAmdHsa));
  }
  std::optional<std::string_view> note;
  for (const ElfView::Section& section : elf->sections()) {
    if (section.type == SHT_NOTE && !note) note = MetadataOf(section.content);
  }
  if (!note) return Malformed("there is no metadata note");
  absl::StatusOr<MsgpackValue> metadata = ParseMsgpack(*note);
  if (!metadata.ok()) return Malformed(StdView(metadata.status().message()));

  std::set<std::string_view> symbols;
  const std::vector<ElfView::Symbol> dynamic = elf->Symbols(SHT_DYNSYM);
  for (const ElfView::Symbol& symbol : dynamic) symbols.insert(symbol.name);
  CodeObject object;
  object.target = TargetOf(*elf, *metadata);
  if (const MsgpackValue* kernels = metadata->Find("amdhsa.kernels")) {
    for (const MsgpackValue& kernel : kernels->array) {
      const std::string_view descriptor = kernel.String(".symbol");
      if (!descriptor.ends_with(kDescriptorSuffix) || !symbols.contains(descriptor)) {
        return Malformed(absl::StrCat("no symbol ", Quoted(descriptor), " for the kernel ",
                                      Quoted(kernel.String(".name"))));
      }
      object.kernels.push_back(ReadKernel(kernel));
    }
  }
  std::sort(object.kernels.begin(), object.kernels.end(),
            [](const v1::KernelInfo& a, const v1::KernelInfo& b) {
              return a.lowered_name() < b.lowered_name();
            });
  return object;
}

}  // namespace kcache::backend::hip
