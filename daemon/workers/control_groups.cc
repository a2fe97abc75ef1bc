#include "daemon/workers/control_groups.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "contract/strings.h"
#include "daemon/ops/system_error.h"

namespace kcache::workers {
namespace {

namespace fs = std::filesystem;
using ops::ErrnoText;
using ops::UniqueFd;

constexpr std::string_view kPrefix = "kcached-";
constexpr std::chrono::seconds kMoment{1};

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> Words(const std::string& text) {
  return absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipEmpty());
}

// Only into a file that is there: the kernel makes them.
absl::Status WriteFile(const std::string& path, const std::string& text) {
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (fd.valid() && write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size())) {
    return absl::OkStatus();
  }
  return ops::SystemError(errno, absl::StrCat("writing \"", text, "\" to ", path));
}

// The value of `key` in a file of "key value" lines; 0 when it is not there.
uint64_t Value(const std::string& text, std::string_view key) {
  std::istringstream lines(text);
  std::string name;
  for (uint64_t value = 0; lines >> name >> value;) {
    if (name == key) return value;
  }
  return 0;
}

std::string ReadAgain(int fd) {
  char buffer[512];
  const ssize_t length = pread(fd, buffer, sizeof buffer, 0);
  return length > 0 ? std::string(buffer, static_cast<size_t>(length)) : std::string();
}

// When the process began, in ticks since boot; 0: there is none with this pid.
uint64_t StartOf(pid_t pid) {
  const std::string line = ReadFile(absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  uint64_t start = 0;
  fields >> start;
  return start;
}

// Pids mean something only where they were given.
uint64_t PidNamespace() {
  struct stat info {};
  return stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

std::string NameOf(pid_t pid, uint64_t start) {
  return absl::StrCat(AbslView(kPrefix), PidNamespace(), "-", pid, "-", start);
}

// Whether the group of that name belongs to a daemon that has gone.
bool IsLeftOver(const std::string& name) {
  const std::string mine = absl::StrCat(AbslView(kPrefix), PidNamespace(), "-");
  if (!name.starts_with(mine)) return false;
  std::istringstream rest(name.substr(mine.size()));
  pid_t pid = 0;
  uint64_t start = 0;
  char dash = 0;
  return (rest >> pid >> dash >> start) && dash == '-' && StartOf(pid) != start;
}

// Ends every process below `base` and removes the directories, as far as it goes within a moment.
void EndTree(const std::string& base, const GroupDirectories& directories) {
  WriteFile(base + "/cgroup.kill", "1").IgnoreError();
  const UniqueFd events(open((base + "/cgroup.events").c_str(), O_RDONLY | O_CLOEXEC));
  const auto deadline = std::chrono::steady_clock::now() + kMoment;
  while (events.valid() && Value(ReadAgain(events.get()), "populated") != 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) break;
    pollfd changed{events.get(), POLLPRI, 0};
    poll(&changed, 1, static_cast<int>(left.count()));
  }
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(base, ignored)) {
    if (entry.is_directory(ignored)) directories.remove(entry.path().string());
  }
  directories.remove(base);
}

// A path in mountinfo: space, tab, newline and backslash are written as octal numbers.
std::string Unescaped(std::string_view text) {
  std::string path;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      path += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                (text[i + 3] - '0'));
      i += 3;
    } else {
      path += text[i];
    }
  }
  return path;
}

}  // namespace

GroupDirectories KernelsDirectories() {
  return {.make = [](const std::string& path) { return mkdir(path.c_str(), 0755) == 0 ? 0 : errno; },
          .remove = [](const std::string& path) { return rmdir(path.c_str()) == 0 ? 0 : errno; }};
}

absl::StatusOr<std::string> OwnGroupDirectory(const std::string& groups,
                                              const std::string& mounts) {
  std::string own;
  for (absl::string_view line : absl::StrSplit(groups, '\n')) {
    // "0::/system.slice/kcached.service"; other numbers are of version 1.
    if (line.substr(0, 3) == "0::") own = std::string(StdView(line.substr(3)));
  }
  if (own.empty()) return absl::NotFoundError("this kernel has no control groups of version 2");
  for (absl::string_view line : absl::StrSplit(mounts, '\n')) {
    // ID PARENT DEVICE ROOT MOUNTPOINT OPTIONS … - TYPE SOURCE OPTIONS
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    const size_t dash = static_cast<size_t>(std::find(words.begin(), words.end(), "-") -
                                            words.begin());
    if (dash < 6 || dash + 1 >= words.size() || words[dash + 1] != "cgroup2") continue;
    const std::string root = Unescaped(words[3]);
    std::string below = own;
    if (root != "/") {
      if (own != root && !own.starts_with(root + "/")) continue;
      below = own.substr(root.size());
    }
    // Outside of what this cgroup namespace shows.
    if (below.find("/..") != std::string::npos) continue;
    return Unescaped(words[4]) + (below == "/" ? "" : below);
  }
  return absl::NotFoundError(
      absl::StrCat("no cgroup v2 mount shows kcached's own control group ", own));
}

// ---- a group ------------------------------------------------------------------------------------

ControlGroup::~ControlGroup() {
  if (directories_ != nullptr) directories_->remove(path_);
}

void ControlGroup::Kill() const { (void)!write(kill_.get(), "1", 1); }

bool ControlGroup::Populated() const {
  return Value(ReadAgain(events_.get()), "populated") != 0;
}

bool ControlGroup::MemoryLimitHit() const {
  return Value(ReadFile(path_ + "/memory.events"), "oom_kill") != 0;
}

// ---- all groups ---------------------------------------------------------------------------------

std::unique_ptr<ControlGroups> ControlGroups::None(std::string why) {
  std::unique_ptr<ControlGroups> groups(new ControlGroups);
  groups->why_not_ = std::move(why);
  return groups;
}

std::unique_ptr<ControlGroups> ControlGroups::Open() {
  auto own = OwnGroupDirectory(ReadFile("/proc/self/cgroup"), ReadFile("/proc/self/mountinfo"));
  if (!own.ok()) return None(std::string(StdView(own.status().message())));
  return OpenAt(*own, KernelsDirectories());
}

std::unique_ptr<ControlGroups> ControlGroups::OpenAt(const std::string& own,
                                                     GroupDirectories directories) {
  if (access((own + "/cgroup.procs").c_str(), W_OK) != 0) {
    return None(absl::StrCat(own, " is not delegated to this user: ", ErrnoText(errno)));
  }
  std::error_code ignored;
  std::vector<std::string> left_over;
  for (const fs::directory_entry& entry : fs::directory_iterator(own, ignored)) {
    if (IsLeftOver(entry.path().filename().string())) left_over.push_back(entry.path().string());
  }
  for (const std::string& base : left_over) EndTree(base, directories);

  std::unique_ptr<ControlGroups> groups(new ControlGroups);
  groups->directories_ = std::move(directories);
  groups->EnableControllers(own);
  const std::string base = absl::StrCat(own, "/", NameOf(getpid(), StartOf(getpid())));
  if (const int error = groups->directories_.make(base); error != 0) {
    return None(absl::StrCat("no group can be made in ", own, ": ", ErrnoText(error)));
  }
  groups->base_ = base;
  if (access((base + "/cgroup.kill").c_str(), W_OK) != 0) {
    groups->TurnOff("this kernel's control groups cannot be ended as one: no cgroup.kill");
    return groups;
  }
  for (auto [name, there] : {std::pair<const char*, bool*>{"memory", &groups->memory_},
                             {"pids", &groups->processes_}}) {
    if (*there) *there = WriteFile(base + "/cgroup.subtree_control", absl::StrCat("+", name)).ok();
  }
  if (groups->why_no_limits_.empty() && !(groups->memory_ && groups->processes_)) {
    groups->why_no_limits_ = absl::StrCat(base, " is given no memory and pids controllers");
  }
  return groups;
}

void ControlGroups::EnableControllers(const std::string& own) {
  const auto has = [](const std::string& file, const char* word) {
    const std::vector<std::string> words = Words(ReadFile(file));
    return std::find(words.begin(), words.end(), word) != words.end();
  };
  const std::pair<const char*, bool*> wanted[] = {{"memory", &memory_}, {"pids", &processes_}};
  std::vector<std::string> missing, to_enable;
  for (const auto& [name, there] : wanted) {
    if (!has(own + "/cgroup.controllers", name)) {
      missing.emplace_back(name);
    } else if (has(own + "/cgroup.subtree_control", name)) {
      *there = true;
    } else {
      to_enable.emplace_back(name);
    }
  }
  if (!missing.empty()) {
    why_no_limits_ = absl::StrCat(own, " has no ", absl::StrJoin(missing, " and no "), " controller");
  }
  if (to_enable.empty()) return;
  // The root group may have both processes and controllers; it alone has no type.
  if (access((own + "/cgroup.type").c_str(), F_OK) == 0) {
    const std::string self = std::to_string(getpid());
    for (const std::string& pid : Words(ReadFile(own + "/cgroup.procs"))) {
      if (pid == self) continue;
      why_no_limits_ = absl::StrCat("kcached's control group ", own, " has other processes in it");
      return;
    }
    const int error = directories_.make(own + "/main");
    absl::Status moved = error == 0 || error == EEXIST
                             ? WriteFile(own + "/main/cgroup.procs", "0")
                             : ops::SystemError(error, "making " + own + "/main");
    if (!moved.ok()) {
      why_no_limits_ = std::string(StdView(moved.message()));
      return;
    }
  }
  for (const auto& [name, there] : wanted) {
    if (std::find(to_enable.begin(), to_enable.end(), name) == to_enable.end()) continue;
    absl::Status enabled = WriteFile(own + "/cgroup.subtree_control", absl::StrCat("+", name));
    *there = enabled.ok();
    if (!enabled.ok()) why_no_limits_ = std::string(StdView(enabled.message()));
  }
}

absl::StatusOr<std::unique_ptr<ControlGroup>> ControlGroups::Make(const std::string& label,
                                                                  const GroupLimits& limits) {
  std::string name = std::to_string(next_++) + "-";
  for (const char c : label) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += plain ? c : '-';
  }
  std::unique_ptr<ControlGroup> group(new ControlGroup);
  group->path_ = base_ + "/" + name.substr(0, 128);
  const auto fail = [&](int error, const char* doing) {
    return ops::SystemError(error, absl::StrCat(doing, " the control group ", group->path_));
  };
  if (const int error = directories_.make(group->path_); error != 0) return fail(error, "making");
  group->directories_ = &directories_;
  const struct {
    const char* file;
    int flags;
    UniqueFd* fd;
  } files[] = {{"cgroup.procs", O_WRONLY, &group->procs_},
               {"cgroup.kill", O_WRONLY, &group->kill_},
               {"cgroup.events", O_RDONLY, &group->events_}};
  for (const auto& file : files) {
    file.fd->Reset(open((group->path_ + "/" + file.file).c_str(), file.flags | O_CLOEXEC));
    if (!file.fd->valid()) return fail(errno, "opening");
  }
  absl::Status limited;
  if (memory_ && limits.memory != 0) {
    limited.Update(WriteFile(group->path_ + "/memory.max", std::to_string(limits.memory)));
    // All of a compile goes, not just its largest process; and without swap, where there is any.
    limited.Update(WriteFile(group->path_ + "/memory.oom.group", "1"));
    WriteFile(group->path_ + "/memory.swap.max", "0").IgnoreError();
  }
  if (processes_ && limits.processes != 0) {
    limited.Update(WriteFile(group->path_ + "/pids.max", std::to_string(limits.processes)));
  }
  if (!limited.ok()) return limited;
  return group;
}

void ControlGroups::TurnOff(std::string why) {
  EndAll();
  why_not_ = std::move(why);
}

void ControlGroups::EndAll() {
  if (base_.empty()) return;
  EndTree(base_, directories_);
  base_.clear();
}

}  // namespace kcache::workers
