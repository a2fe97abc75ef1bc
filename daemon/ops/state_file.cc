#include "daemon/ops/state_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "contract/digest.h"
#include "contract/strings.h"
#include "daemon/ops/system_error.h"
#include "daemon/ops/unique_fd.h"

namespace kcache::ops {
namespace {

constexpr std::string_view kHeader = "kcached-state 1\n";

}  // namespace

std::string EncodeState(const core::DurableState& state) {
  std::string body(kHeader);
  for (const auto& [device, reason] : state.down) {
    absl::StrAppend(&body, "down ", absl::CEscape(device), " ", absl::CEscape(reason), "\n");
  }
  return absl::StrCat(body, "end ", Digest::Of(body).hex(), "\n");
}

absl::StatusOr<core::DurableState> DecodeState(std::string_view text) {
  if (!text.starts_with(kHeader)) {
    return absl::DataLossError(absl::StrCat("does not start with ", Quoted(kHeader)));
  }
  const size_t end = text.rfind("end ");
  if (end == std::string_view::npos || end == 0 || text[end - 1] != '\n') {
    return absl::DataLossError("has no end");
  }
  const std::string_view body = text.substr(0, end);
  if (text.substr(end) != "end " + Digest::Of(body).hex() + "\n") {
    return absl::DataLossError("its checksum does not match");
  }
  core::DurableState state;
  for (absl::string_view line :
       absl::StrSplit(AbslView(body.substr(kHeader.size())), '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    std::string device;
    std::string reason;
    if (words.size() != 3 || words[0] != "down" || !absl::CUnescape(words[1], &device) ||
        !absl::CUnescape(words[2], &reason)) {
      return absl::DataLossError(absl::StrCat("cannot read the line ", Quoted(StdView(line))));
    }
    state.down[device] = reason;
  }
  return state;
}

StateFile::StateFile(std::string directory, core::EventSink* events)
    : directory_(std::move(directory)), file_(directory_ + "/state"), events_(events) {}

core::DurableState StateFile::Load() {
  std::ifstream stream(file_, std::ios::binary);
  if (!stream) return {};
  std::ostringstream content;
  content << stream.rdbuf();
  auto state = DecodeState(content.str());
  if (state.ok()) return *std::move(state);
  const std::string aside = file_ + ".damaged";
  const bool moved = std::rename(file_.c_str(), aside.c_str()) == 0;
  events_->Emit("state-quarantined",
                absl::StrCat(file_, " ", state.status().message(), "; ",
                             moved ? "moved to " + aside : "it could not be moved aside",
                             "; no device is kept down"),
                {{"file", file_}});
  return {};
}

absl::Status StateFile::Save(const core::DurableState& state) {
  const std::string text = EncodeState(state);
  const std::string temporary = file_ + ".new";
  UniqueFd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return SystemError(errno, "creating " + temporary);
  for (size_t written = 0; written < text.size();) {
    const ssize_t n = write(fd.get(), text.data() + written, text.size() - written);
    if (n < 0) {
      if (errno == EINTR) continue;
      return SystemError(errno, "writing " + temporary);
    }
    written += static_cast<size_t>(n);
  }
  if (fsync(fd.get()) != 0) return SystemError(errno, "syncing " + temporary);
  if (std::rename(temporary.c_str(), file_.c_str()) != 0) {
    return SystemError(errno, "renaming " + temporary);
  }
  UniqueFd directory(open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid() || fsync(directory.get()) != 0) {
    return SystemError(errno, "syncing " + directory_);
  }
  return absl::OkStatus();
}

}  // namespace kcache::ops
