#include "backends/cudalike/elf_view.h"

#include <elf.h>

#include <cstddef>
#include <cstring>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kcache::backend::cudalike {
namespace {

constexpr size_t kMaxSections = 1 << 20;

// The bytes [offset, offset + size) of `file`; false when they are not all there.
bool Slice(std::string_view file, uint64_t offset, uint64_t size, std::string_view* slice) {
  if (offset > file.size() || size > file.size() - offset) return false;
  *slice = file.substr(offset, size);
  return true;
}

std::string_view StringAt(std::string_view table, uint64_t offset) {
  if (offset >= table.size()) return {};
  const std::string_view rest = table.substr(offset);
  const size_t end = rest.find('\0');
  return end == std::string_view::npos ? std::string_view() : rest.substr(0, end);
}

}  // namespace

absl::StatusOr<ElfView> ElfView::Parse(std::string_view file) {
  if (file.size() < sizeof(Elf64_Ehdr) || std::memcmp(file.data(), ELFMAG, SELFMAG) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("not an ELF file (", file.size(), " bytes without its header)"));
  }
  Elf64_Ehdr header;
  std::memcpy(&header, file.data(), sizeof(header));
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB) {
    return absl::InvalidArgumentError("not a 64-bit little-endian ELF file");
  }
  ElfView view;
  view.os_abi_ = header.e_ident[EI_OSABI];
  view.abi_version_ = header.e_ident[EI_ABIVERSION];
  view.machine_ = header.e_machine;
  view.flags_ = header.e_flags;
  if (header.e_shoff == 0) return view;
  if (header.e_shentsize != sizeof(Elf64_Shdr)) {
    return absl::InvalidArgumentError(
        absl::StrCat("section headers of ", header.e_shentsize, " bytes"));
  }
  std::string_view first;
  if (!Slice(file, header.e_shoff, sizeof(Elf64_Shdr), &first)) {
    return absl::InvalidArgumentError("section headers beyond the end of the file");
  }
  Elf64_Shdr extended;
  std::memcpy(&extended, first.data(), sizeof(extended));
  // Counts that do not fit their 16 bits are in the first section header.
  const uint64_t count = header.e_shnum != 0 ? header.e_shnum : extended.sh_size;
  const uint64_t names_index =
      header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : extended.sh_link;
  std::string_view table;
  if (count > kMaxSections || !Slice(file, header.e_shoff, count * sizeof(Elf64_Shdr), &table)) {
    return absl::InvalidArgumentError(absl::StrCat(count, " section headers beyond the end"));
  }
  std::vector<Elf64_Shdr> raw(count);
  if (count > 0) std::memcpy(raw.data(), table.data(), table.size());
  std::string_view names;
  if (names_index < count) {
    (void)Slice(file, raw[names_index].sh_offset, raw[names_index].sh_size, &names);
  }
  view.sections_.reserve(count);
  for (const Elf64_Shdr& section : raw) {
    Section parsed;
    parsed.name = StringAt(names, section.sh_name);
    parsed.type = section.sh_type;
    parsed.link = section.sh_link;
    parsed.info = section.sh_info;
    parsed.size = section.sh_size;
    if (section.sh_type != SHT_NOBITS && section.sh_type != SHT_NULL &&
        !Slice(file, section.sh_offset, section.sh_size, &parsed.content)) {
      return absl::InvalidArgumentError(absl::StrCat("section ", std::string(parsed.name),
                                                     " reaches beyond the end of the file"));
    }
    view.sections_.push_back(parsed);
  }
  return view;
}

const ElfView::Section* ElfView::Find(std::string_view name) const {
  for (const Section& section : sections_) {
    if (section.name == name) return &section;
  }
  return nullptr;
}

std::vector<ElfView::Symbol> ElfView::Symbols(uint32_t type) const {
  std::vector<Symbol> symbols;
  for (const Section& section : sections_) {
    if (section.type != type) continue;
    const std::string_view names =
        section.link < sections_.size() ? sections_[section.link].content : std::string_view();
    for (size_t at = 0; at + sizeof(Elf64_Sym) <= section.content.size(); at += sizeof(Elf64_Sym)) {
      Elf64_Sym raw;
      std::memcpy(&raw, section.content.data() + at, sizeof(raw));
      symbols.push_back({StringAt(names, raw.st_name),
                         static_cast<uint8_t>(ELF64_ST_TYPE(raw.st_info)), raw.st_other,
                         raw.st_shndx, raw.st_value, raw.st_size});
    }
    break;
  }
  return symbols;
}

}  // namespace kcache::backend::cudalike
