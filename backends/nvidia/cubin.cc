#include "backends/nvidia/cubin.h"

#include <elf.h>

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "backends/cudalike/elf_view.h"
#include "contract/error_reason.h"

namespace kcache::backend::nvidia {
namespace {

using cudalike::ElfView;
using cudalike::ReadInteger;

constexpr uint16_t kMachineCuda = 190;       // EM_CUDA
constexpr uint8_t kSymbolEntry = 0x10;       // st_other: STO_CUDA_ENTRY
constexpr uint8_t kFormatSizedValue = 0x04;  // a 16-bit size, then as many bytes
constexpr uint32_t kMaxArguments = 4096;

enum Attribute : uint8_t {
  kMaxThreads = 0x05,       // x, y, z of __launch_bounds__
  kRequiredThreads = 0x10,  // x, y, z of .reqntid
  kFrameSize = 0x11,        // symbol, bytes of local memory
  kParameterInfo = 0x17,    // KPARAM_INFO: index, ordinal, offset, packed size
  kRegisterCount = 0x2f,    // symbol, registers
  kParameterInfoV2 = 0x45,  // the same with a size of 16 bits: parameters over 4 KiB
};

struct Record {
  uint8_t attribute = 0;
  uint16_t value = 0;  // formats without a payload
  std::string_view payload;
};

std::vector<Record> ReadRecords(std::string_view section) {
  std::vector<Record> records;
  for (size_t at = 0; at + 4 <= section.size();) {
    const auto format = static_cast<uint8_t>(section[at]);
    Record record;
    record.attribute = static_cast<uint8_t>(section[at + 1]);
    record.value = ReadInteger<uint16_t>(section, at + 2);
    at += 4;
    if (format == kFormatSizedValue) {
      if (record.value > section.size() - at) break;
      record.payload = section.substr(at, record.value);
      at += record.value;
    }
    records.push_back(record);
  }
  return records;
}

void SetDim3(const Record& record, v1::Dim3* dim) {
  dim->set_x(ReadInteger<uint32_t>(record.payload, 0));
  dim->set_y(ReadInteger<uint32_t>(record.payload, 4));
  dim->set_z(ReadInteger<uint32_t>(record.payload, 8));
}

struct Parameter {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

absl::Status ReadKernelRecords(std::string_view section, v1::KernelInfo* kernel) {
  std::map<uint32_t, Parameter> parameters;
  for (const Record& record : ReadRecords(section)) {
    switch (record.attribute) {
      case kParameterInfo:
      case kParameterInfoV2: {
        if (record.payload.size() < 12) break;
        const uint32_t packed = ReadInteger<uint32_t>(record.payload, 8);
        parameters[ReadInteger<uint16_t>(record.payload, 4)] = {
            ReadInteger<uint16_t>(record.payload, 6),
            record.attribute == kParameterInfo ? packed >> 18 : packed & 0xffff};
        break;
      }
      case kMaxThreads: {
        v1::Dim3 threads;
        SetDim3(record, &threads);
        kernel->set_max_local_size(threads.x() * std::max(threads.y(), 1U) *
                                   std::max(threads.z(), 1U));
        break;
      }
      case kRequiredThreads:
        SetDim3(record, kernel->mutable_required_local_size());
        break;
      default:
        break;
    }
  }
  uint32_t expected = 0;
  for (const auto& [ordinal, parameter] : parameters) {
    if (ordinal != expected++ || expected > kMaxArguments) {
      return MakeError(v1::BAD_REQUEST,
                       absl::StrCat("the cubin describes parameter ", ordinal, " of ",
                                    kernel->lowered_name(), " but not the one before"));
    }
    v1::ArgumentInfo* argument = kernel->add_arguments();
    argument->set_offset(parameter.offset);
    argument->set_bytes(parameter.bytes);
  }
  kernel->set_arguments_known(true);
  return absl::OkStatus();
}

// ABI 8 moved the architecture from the low byte of the flags to the second.
uint32_t ComputeCapability(const ElfView& elf) {
  return elf.abi_version() >= 8 ? (elf.flags() >> 8) & 0xff : elf.flags() & 0xff;
}

}  // namespace

absl::StatusOr<Cubin> ReadCubin(std::string_view file) {
  absl::StatusOr<ElfView> elf = ElfView::Parse(file);
  if (!elf.ok()) return MakeError(v1::BAD_REQUEST, absl::StrCat("cubin: ", elf.status().message()));
  if (elf->machine() != kMachineCuda) {
    return MakeError(v1::BAD_REQUEST, absl::StrCat("cubin: the ELF machine is ", elf->machine(),
                                                   ", CUDA's is ", kMachineCuda));
  }
  Cubin cubin;
  cubin.compute_capability = ComputeCapability(*elf);
  const std::vector<ElfView::Symbol> symbols = elf->Symbols(SHT_SYMTAB);
  std::map<uint32_t, size_t> kernel_of_symbol;
  for (size_t index = 0; index < symbols.size(); ++index) {
    const ElfView::Symbol& symbol = symbols[index];
    const bool is_entry = symbol.type == STT_FUNC && (symbol.other & kSymbolEntry) != 0;
    if (!is_entry) continue;
    v1::KernelInfo kernel;
    kernel.set_lowered_name(std::string(symbol.name));
    if (const auto* info = elf->Find(absl::StrCat(".nv.info.", kernel.lowered_name()))) {
      if (absl::Status status = ReadKernelRecords(info->content, &kernel); !status.ok()) {
        return status;
      }
    }
    if (const auto* shared = elf->Find(absl::StrCat(".nv.shared.", kernel.lowered_name()))) {
      kernel.set_local_memory_bytes(shared->size);
    }
    kernel_of_symbol[static_cast<uint32_t>(index)] = cubin.kernels.size();
    cubin.kernels.push_back(std::move(kernel));
  }
  if (const auto* info = elf->Find(".nv.info")) {
    for (const Record& record : ReadRecords(info->content)) {
      if (record.payload.size() < 8) continue;
      const auto kernel = kernel_of_symbol.find(ReadInteger<uint32_t>(record.payload, 0));
      if (kernel == kernel_of_symbol.end()) continue;
      const uint32_t value = ReadInteger<uint32_t>(record.payload, 4);
      if (record.attribute == kRegisterCount) cubin.kernels[kernel->second].set_registers(value);
      if (record.attribute == kFrameSize) {
        cubin.kernels[kernel->second].set_private_memory_bytes(value);
      }
    }
  }
  std::sort(cubin.kernels.begin(), cubin.kernels.end(),
            [](const v1::KernelInfo& a, const v1::KernelInfo& b) {
              return a.lowered_name() < b.lowered_name();
            });
  return cubin;
}

}  // namespace kcache::backend::nvidia
