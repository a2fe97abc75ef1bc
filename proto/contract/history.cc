#include "contract/history.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace kcache {
namespace {

// A value has no blanks and no line ends; "%" and two hexadecimal digits stand for them.
void AppendEscaped(std::string_view text, std::string* line) {
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char character : text) {
    const auto byte = static_cast<unsigned char>(character);
    if (byte <= ' ' || byte == '%' || byte == 0x7f) {
      line->push_back('%');
      line->push_back(kDigits[byte >> 4]);
      line->push_back(kDigits[byte & 15]);
    } else {
      line->push_back(character);
    }
  }
}

}  // namespace

absl::StatusOr<int> History::OpenFile(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) {
    return absl::UnavailableError(absl::StrCat("opening history ", path, ": ", strerror(errno)));
  }
  return fd;
}

absl::StatusOr<std::unique_ptr<History>> History::Open(const std::string& path) {
  absl::StatusOr<int> fd = OpenFile(path);
  if (!fd.ok()) return fd.status();
  return std::make_unique<History>(*fd);
}

History::~History() { close(fd_); }

uint64_t History::Now() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

void History::Record(std::string_view kind, std::initializer_list<HistoryField> fields) const {
  std::string line = absl::StrCat(Now(), " ");
  line.append(kind);
  for (const HistoryField& field : fields) {
    line.push_back(' ');
    line.append(field.name);
    line.push_back('=');
    if (field.is_text) {
      AppendEscaped(field.text, &line);
    } else {
      absl::StrAppend(&line, field.number);
    }
  }
  line.push_back('\n');
  // One call a line. What a full disk takes away, the checkers miss.
  while (write(fd_, line.data(), line.size()) < 0 && errno == EINTR) {
  }
}

}  // namespace kcache
