#include "daemon/workers/exit_status.h"

#include <csignal>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"

namespace kcache::workers {
namespace {

constexpr size_t kMaxLastWords = 600;

}  // namespace

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

std::string ExitStatus::Describe() const {
  if (!verified) return "not known to have exited";
  if (signal != 0) return absl::StrCat("killed by ", SignalName(signal));
  return absl::StrCat("exited with ", code);
}

std::string LastWords(const std::string& last_words) {
  std::string text = ToValidUtf8(last_words);
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  if (text.empty()) return "";
  if (text.size() > kMaxLastWords) {
    size_t start = text.size() - kMaxLastWords;
    // Not inside a character.
    while (start < text.size() && (static_cast<unsigned char>(text[start]) & 0xC0) == 0x80) ++start;
    text = "…" + text.substr(start);
  }
  std::string line;
  for (const char c : text) {
    if (c == '\n') {
      line += " | ";
    } else if (static_cast<unsigned char>(c) >= 0x20 && c != 0x7f) {
      line += c;
    }
  }
  return "; last words: " + line;
}

}  // namespace kcache::workers
