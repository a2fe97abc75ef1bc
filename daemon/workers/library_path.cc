#include "daemon/workers/library_path.h"

#include <elf.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>

#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace kcache::workers {
namespace {

constexpr size_t kMaxHeaders = 256;
constexpr size_t kMaxDynamic = 4096;
constexpr size_t kMaxPath = 16 << 10;

template <class T>
bool Read(std::ifstream& file, uint64_t offset, T* value) {
  file.clear();
  file.seekg(static_cast<std::streamoff>(offset));
  return static_cast<bool>(file.read(reinterpret_cast<char*>(value), sizeof *value));
}

// The file offset of a virtual address.
std::optional<uint64_t> OffsetOf(const std::vector<Elf64_Phdr>& headers, uint64_t address) {
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type == PT_LOAD && address >= header.p_vaddr &&
        address - header.p_vaddr < header.p_filesz) {
      return header.p_offset + (address - header.p_vaddr);
    }
  }
  return std::nullopt;
}

std::string RunPath(std::ifstream& file) {
  Elf64_Ehdr elf{};
  if (!Read(file, 0, &elf) || std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
      elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_ident[EI_DATA] != ELFDATA2LSB ||
      elf.e_phentsize != sizeof(Elf64_Phdr) || elf.e_phnum > kMaxHeaders) {
    return "";
  }
  std::vector<Elf64_Phdr> headers(elf.e_phnum);
  for (size_t i = 0; i < headers.size(); ++i) {
    if (!Read(file, elf.e_phoff + i * sizeof(Elf64_Phdr), &headers[i])) return "";
  }
  uint64_t strings = 0;
  std::optional<uint64_t> run_path;
  std::optional<uint64_t> old_path;
  for (const Elf64_Phdr& header : headers) {
    if (header.p_type != PT_DYNAMIC) continue;
    for (size_t i = 0; i < kMaxDynamic && i < header.p_filesz / sizeof(Elf64_Dyn); ++i) {
      Elf64_Dyn entry{};
      if (!Read(file, header.p_offset + i * sizeof entry, &entry)) return "";
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
      if (entry.d_tag == DT_RUNPATH) run_path = entry.d_un.d_val;
      if (entry.d_tag == DT_RPATH) old_path = entry.d_un.d_val;
    }
  }
  if (!run_path) run_path = old_path;
  const std::optional<uint64_t> table = OffsetOf(headers, strings);
  if (!run_path || !table) return "";
  file.clear();
  file.seekg(static_cast<std::streamoff>(*table + *run_path));
  std::string path;
  for (char c = 0; path.size() < kMaxPath && file.get(c) && c != '\0';) path += c;
  return path;
}

}  // namespace

std::vector<std::string> LibraryDirectories(const std::string& program) {
  std::ifstream file(program, std::ios::binary);
  if (!file) return {};
  const std::string origin = std::filesystem::path(program).parent_path().string();
  std::vector<std::string> directories;
  for (std::string directory :
       std::vector<std::string>(absl::StrSplit(RunPath(file), ':', absl::SkipEmpty()))) {
    directory = absl::StrReplaceAll(directory, {{"$ORIGIN", origin}, {"${ORIGIN}", origin}});
    directory = std::filesystem::path(directory).lexically_normal().string();
    if (directory.starts_with('/')) directories.push_back(std::move(directory));
  }
  return directories;
}

}  // namespace kcache::workers
