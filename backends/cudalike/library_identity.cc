#include "backends/cudalike/library_identity.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string_view>

#include "backends/cudalike/elf_view.h"
#include "contract/digest.h"

namespace kcache::backend::cudalike {
namespace {

// A read-only mapping: these libraries have a hundred megabytes, of which a few pages are looked
// at.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return;
    struct stat status;
    if (fstat(file, &status) == 0 && status.st_size > 0) {
      const auto bytes = static_cast<size_t>(status.st_size);
      void* mapped = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, file, 0);
      if (mapped != MAP_FAILED) content_ = {static_cast<const char*>(mapped), bytes};
    }
    close(file);
  }
  ~MappedFile() {
    if (!content_.empty()) munmap(const_cast<char*>(content_.data()), content_.size());
  }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  std::string_view content() const { return content_; }

 private:
  std::string_view content_;
};

}  // namespace

std::string LibraryIdentity(const std::string& path) {
  const MappedFile file(path);
  if (file.content().empty()) return "";
  if (const auto elf = ElfView::Parse(file.content()); elf.ok()) {
    // A note: sizes of name and description, type, "GNU\0", description.
    constexpr size_t kNoteHeaderBytes = 16;
    const ElfView::Section* note = elf->Find(".note.gnu.build-id");
    if (note != nullptr && note->content.size() > kNoteHeaderBytes) {
      return std::string(note->content.substr(kNoteHeaderBytes));
    }
  }
  return Digest::Of(file.content()).str();
}

}  // namespace kcache::backend::cudalike
