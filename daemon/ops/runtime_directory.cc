#include "daemon/ops/runtime_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ops/system_error.h"

namespace kcache::ops {
namespace {

namespace fs = std::filesystem;

absl::Status Make(const std::string& path, mode_t mode) {
  std::error_code error;
  const bool created = fs::create_directories(path, error);
  if (error) return SystemError(error.value(), "making the directory " + path);
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) return SystemError(errno, "looking at " + path);
  if (!S_ISDIR(info.st_mode)) {
    return absl::FailedPreconditionError(absl::StrCat(path, " is no directory"));
  }
  // One that was there is used as it is: its mode is its owner's decision.
  if (created && chmod(path.c_str(), mode) != 0) {
    return SystemError(errno, "setting the mode of " + path);
  }
  return absl::OkStatus();
}

absl::StatusOr<UniqueFd> Lock(const std::string& directory) {
  const std::string file = directory + "/kcached.lock";
  UniqueFd lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!lock.valid()) return SystemError(errno, "opening " + file);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return SystemError(errno, "locking " + file);
    char pid[32] = {};
    const ssize_t length = pread(lock.get(), pid, sizeof pid - 1, 0);
    return absl::AlreadyExistsError(absl::StrCat(
        "another kcached (pid ", length > 0 ? pid : "unknown", ") serves ", directory));
  }
  const std::string pid = std::to_string(getpid());
  if (ftruncate(lock.get(), 0) != 0 || pwrite(lock.get(), pid.data(), pid.size(), 0) < 0) {
    return SystemError(errno, "writing " + file);
  }
  return lock;
}

void EmptyDirectory(const std::string& path) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(path, ignored)) {
    fs::remove_all(entry.path(), ignored);
  }
}

}  // namespace

RuntimeDirectory::RuntimeDirectory(UniqueFd lock, const std::string& runtime_dir)
    : lock_(std::move(lock)), execution_(runtime_dir + "/exec"), work_(runtime_dir + "/work") {}

absl::StatusOr<RuntimeDirectory> RuntimeDirectory::Open(const Config& config) {
  if (absl::Status made = Make(config.runtime_dir, 0755); !made.ok()) return made;
  auto lock = Lock(config.runtime_dir);
  if (!lock.ok()) return lock.status();
  RuntimeDirectory directory(*std::move(lock), config.runtime_dir);
  for (const auto& [path, mode] :
       {std::pair<const std::string&, mode_t>{directory.execution_, 0711},
        {directory.work_, 0711},
        {config.state_dir, 0755}}) {
    if (absl::Status made = Make(path, mode); !made.ok()) return made;
  }
  directory.Empty();
  return directory;
}

void RuntimeDirectory::Empty() const {
  EmptyDirectory(execution_);
  EmptyDirectory(work_);
}

}  // namespace kcache::ops
