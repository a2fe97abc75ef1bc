#include "backends/opencl/library_identity.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "contract/strings.h"

namespace kcache::backend::opencl {
namespace {

// The description of the NT_GNU_BUILD_ID note among the notes in [begin, begin + size).
std::string BuildIdOfNotes(const char* begin, size_t size) {
  constexpr size_t kAlign = 4;
  const auto aligned = [](size_t value) { return (value + kAlign - 1) / kAlign * kAlign; };
  for (size_t at = 0; at + sizeof(ElfW(Nhdr)) <= size;) {
    ElfW(Nhdr) note;
    std::memcpy(&note, begin + at, sizeof(note));
    const size_t name = at + sizeof(note);
    const size_t description = name + aligned(note.n_namesz);
    if (description + note.n_descsz > size) return {};
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
        std::memcmp(begin + name, ELF_NOTE_GNU, 4) == 0) {
      return ToHex(std::string_view(begin + description, note.n_descsz));
    }
    at = description + aligned(note.n_descsz);
  }
  return {};
}

struct BuildIdQuery {
  std::string path;
  std::string build_id;
};

int FindBuildId(dl_phdr_info* info, size_t, void* data) {
  auto* query = static_cast<BuildIdQuery*>(data);
  if (query->path != info->dlpi_name) return 0;
  for (int i = 0; i < info->dlpi_phnum && query->build_id.empty(); ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    query->build_id = BuildIdOfNotes(
        reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr), segment.p_memsz);
  }
  return 1;
}

std::string ContentHash(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EVP_MD_CTX* hash = EVP_MD_CTX_new();
  EVP_DigestInit_ex(hash, EVP_sha256(), nullptr);
  std::vector<char> block(1 << 20);
  uint64_t bytes = 0;
  while (file.read(block.data(), static_cast<std::streamsize>(block.size())), file.gcount() > 0) {
    EVP_DigestUpdate(hash, block.data(), static_cast<size_t>(file.gcount()));
    bytes += static_cast<uint64_t>(file.gcount());
  }
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int digest_bytes = 0;
  EVP_DigestFinal_ex(hash, digest, &digest_bytes);
  EVP_MD_CTX_free(hash);
  return "size " + std::to_string(bytes) + " sha256 " +
         ToHex({reinterpret_cast<const char*>(digest), digest_bytes});
}

}  // namespace

std::string LibraryFileOf(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return {};
  return info.dli_fname;
}

std::string LibraryIdentity(const std::string& path) {
  std::error_code error;
  const std::filesystem::path resolved = std::filesystem::canonical(path, error);
  const std::string name = (error ? std::filesystem::path(path) : resolved).filename().string();
  BuildIdQuery query{path, {}};
  dl_iterate_phdr(&FindBuildId, &query);
  if (!query.build_id.empty()) return name + " build-id " + query.build_id;
  return name + " " + ContentHash(path);
}

std::vector<std::string> LoadedLibrariesNamed(const std::vector<std::string>& words) {
  struct Collection {
    const std::vector<std::string>& words;
    std::vector<std::string> files;
  } collection{words, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* data) {
        auto* into = static_cast<Collection*>(data);
        const std::string_view path = info->dlpi_name;
        const std::string_view name = path.substr(path.rfind('/') + 1);
        const bool named = std::any_of(
            into->words.begin(), into->words.end(),
            [&](const std::string& word) { return name.find(word) != std::string_view::npos; });
        if (named) into->files.emplace_back(path);
        return 0;
      },
      &collection);
  std::sort(collection.files.begin(), collection.files.end());
  return collection.files;
}

}  // namespace kcache::backend::opencl
