// A bounds-checked look at a 64-bit little-endian ELF file: CUDA's cubins and AMD's code objects.
//
// Threads: a value. Ownership: borrows the file's bytes, which outlive it.
#ifndef KCACHE_BACKENDS_CUDALIKE_ELF_VIEW_H_
#define KCACHE_BACKENDS_CUDALIKE_ELF_VIEW_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace kcache::backend::cudalike {

// Reads a little-endian integer; 0 beyond the end, which callers check with size() first.
template <typename T>
T ReadInteger(std::string_view bytes, size_t offset) {
  T value = 0;
  if (offset > bytes.size() || bytes.size() - offset < sizeof(T)) return value;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>(
        value |
        static_cast<T>(static_cast<T>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i)));
  }
  return value;
}

class ElfView {
 public:
  struct Section {
    std::string_view name;
    uint32_t type = 0;
    uint32_t link = 0;
    uint32_t info = 0;
    uint64_t size = 0;         // also of sections that occupy no file space
    std::string_view content;  // empty for SHT_NOBITS
  };
  struct Symbol {
    std::string_view name;
    uint8_t type = 0;   // STT_…
    uint8_t other = 0;  // st_other
    uint16_t section = 0;
    uint64_t value = 0;
    uint64_t size = 0;
  };

  // InvalidArgument says what is out of bounds.
  static absl::StatusOr<ElfView> Parse(std::string_view file);

  uint8_t os_abi() const { return os_abi_; }
  uint8_t abi_version() const { return abi_version_; }
  uint16_t machine() const { return machine_; }
  uint32_t flags() const { return flags_; }
  const std::vector<Section>& sections() const { return sections_; }
  // Of the first symbol table of `type` (SHT_SYMTAB or SHT_DYNSYM); empty when there is none. The
  // position in the list is the symbol's index.
  std::vector<Symbol> Symbols(uint32_t type) const;
  // nullptr when there is none.
  const Section* Find(std::string_view name) const;

 private:
  uint8_t os_abi_ = 0;
  uint8_t abi_version_ = 0;
  uint16_t machine_ = 0;
  uint32_t flags_ = 0;
  std::vector<Section> sections_;
};

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_ELF_VIEW_H_
