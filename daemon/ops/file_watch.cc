#include "daemon/ops/file_watch.h"

#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "daemon/ops/system_error.h"

namespace kcache::ops {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t kComingAndGoing = IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |
                                     IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR;
constexpr uint32_t kContent = IN_CLOSE_WRITE | IN_ATTRIB;

// A device node is "written" by whoever uses the device.
uint32_t MaskFor(const std::string& directory) {
  const bool nodes = directory == "/dev" || directory.starts_with("/dev/");
  return nodes ? kComingAndGoing : kComingAndGoing | kContent;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FileWatch>> FileWatch::Create(
    EpollLoop* loop, core::Executor* executor, absl::Duration settle,
    core::Function<void(const std::string&)> changed) {
  UniqueFd fd(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
  if (!fd.valid()) return SystemError(errno, "watching files");
  std::unique_ptr<FileWatch> files(
      new FileWatch(std::move(fd), loop, executor, settle, std::move(changed)));
  FileWatch* self = files.get();
  auto watch = loop->Add(self->inotify_.get(), EPOLLIN, [self](uint32_t) { self->OnReadable(); });
  if (!watch.ok()) return watch.status();
  self->watch_ = *watch;
  return files;
}

FileWatch::FileWatch(UniqueFd fd, EpollLoop* loop, core::Executor* executor, absl::Duration settle,
                     core::Function<void(const std::string&)> changed)
    : inotify_(std::move(fd)),
      loop_(loop),
      executor_(executor),
      settle_(settle),
      changed_(std::move(changed)) {}

FileWatch::~FileWatch() { loop_->Remove(watch_); }

void FileWatch::Watch(const std::vector<std::string>& paths) {
  std::map<std::string, Names> wanted;
  const auto want = [&wanted](const fs::path& path) {
    std::error_code error;
    if (fs::is_directory(path, error)) wanted[path.string()].all = true;
    // The nearest directory above that is there tells when the path, or what leads to it, comes.
    fs::path name = path;
    while (name.has_relative_path() && !fs::is_directory(name.parent_path(), error)) {
      name = name.parent_path();
    }
    if (name.has_relative_path()) {
      wanted[name.parent_path().string()].some.insert(name.filename().string());
    }
  };
  for (const std::string& text : paths) {
    fs::path path = fs::path(text).lexically_normal();
    if (!path.has_filename()) path = path.parent_path();  // "/a/b/"
    if (!path.is_absolute() || !path.has_relative_path()) continue;
    want(path);
    std::error_code error;
    const fs::path target = fs::canonical(path, error);
    if (!error && target != path) want(target);
  }

  MutexLock lock(&mutex_);
  std::map<int, Directory> next;
  for (auto& [directory, names] : wanted) {
    const int wd = inotify_add_watch(inotify_.get(), directory.c_str(), MaskFor(directory));
    if (wd < 0) continue;
    // Two names of one directory have one descriptor.
    Directory& entry = next[wd];
    entry.path = directory;
    entry.names.all |= names.all;
    entry.names.some.merge(names.some);
  }
  for (const auto& [wd, directory] : directories_) {
    if (!next.contains(wd)) inotify_rm_watch(inotify_.get(), wd);
  }
  directories_ = std::move(next);
}

void FileWatch::OnReadable() {
  alignas(inotify_event) char buffer[16 << 10];
  std::string first;
  for (;;) {
    const ssize_t length = read(inotify_.get(), buffer, sizeof buffer);
    if (length <= 0) break;
    MutexLock lock(&mutex_);
    for (ssize_t at = 0; at < length;) {
      inotify_event event;
      std::memcpy(&event, buffer + at, sizeof event);
      const char* name = event.len > 0 ? buffer + at + sizeof event : "";
      at += static_cast<ssize_t>(sizeof event + event.len);
      if (!first.empty()) continue;
      if ((event.mask & IN_Q_OVERFLOW) != 0) {
        first = "more files than can be told";
        continue;
      }
      const auto directory = directories_.find(event.wd);
      if (directory == directories_.end() || (event.mask & IN_IGNORED) != 0) continue;
      const bool self = (event.mask & (IN_DELETE_SELF | IN_MOVE_SELF)) != 0;
      const Names& names = directory->second.names;
      // Without a name: the directory itself.
      if (!self && !names.all && !names.some.contains(name)) continue;
      first = directory->second.path + (*name == '\0' ? "" : std::string("/") + name);
    }
  }
  if (!first.empty()) executor_->Run([this, first] { OnChange(first); });
}

void FileWatch::OnChange(const std::string& path) {
  if (settling_) return;
  settling_ = true;
  executor_->RunAfter(settle_, [this, path] {
    settling_ = false;
    changed_(path);
  });
}

}  // namespace kcache::ops
