#include "daemon/workers/driver_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/digest.h"
#include "contract/strings.h"
#include "daemon/ops/system_error.h"
#include "daemon/workers/private_directory.h"

namespace kcache::workers {
namespace {

namespace fs = std::filesystem;

constexpr size_t kDigestDigits = 16;

bool AsksForCache(std::string_view variable) {
  const size_t equals = variable.find('=');
  return equals != std::string_view::npos && variable.substr(equals + 1) == kDriverCache;
}

// Letters, digits, '.' and '_' stay, so that the name is one component of a path and no other's.
std::string Component(std::string_view text) {
  std::string name;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '.' || c == '_';
    name.push_back(plain ? c : '-');
  }
  return name;
}

std::string VersionDirectory(const DriverCacheOwner& owner) {
  return absl::StrCat(Component(owner.family), "-", Component(owner.driver_version));
}

// A directory of kcached's own, which others may pass through.
absl::Status MakeOwn(const std::string& path) {
  if (mkdir(path.c_str(), 0711) != 0 && errno != EEXIST) {
    return ops::SystemError(errno, "creating " + path);
  }
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return ops::SystemError(errno, "looking at " + path);
  if (!S_ISDIR(info.st_mode) || info.st_uid != geteuid()) {
    return absl::FailedPreconditionError(path + " is not a directory of kcached's");
  }
  return absl::OkStatus();
}

void RemoveOtherVersions(const std::string& root, const DriverCacheOwner& owner) {
  const std::string prefix = Component(owner.family) + "-";
  const std::string current = VersionDirectory(owner);
  std::error_code ignored;
  std::vector<std::string> old;
  for (const fs::directory_entry& entry : fs::directory_iterator(root, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name != current) old.push_back(entry.path().string());
  }
  for (const std::string& path : old) RemoveTree(path);
}

// All but the kMostDriverCaches used last.
void RemoveUnused(const std::string& directory) {
  std::error_code ignored;
  std::vector<std::pair<timespec, std::string>> caches;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    struct stat info {};
    if (lstat(entry.path().c_str(), &info) == 0) {
      caches.emplace_back(info.st_mtim, entry.path().string());
    }
  }
  if (caches.size() <= kMostDriverCaches) return;
  std::sort(caches.begin(), caches.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first.tv_sec, a.first.tv_nsec) > std::pair(b.first.tv_sec, b.first.tv_nsec);
  });
  for (size_t i = kMostDriverCaches; i < caches.size(); ++i) RemoveTree(caches[i].second);
}

}  // namespace

bool WantsDriverCache(const std::vector<std::string>& environment) {
  return std::any_of(environment.begin(), environment.end(), AsksForCache);
}

std::vector<std::string> WithDriverCache(const std::vector<std::string>& environment,
                                         const std::optional<std::string>& path) {
  std::vector<std::string> filled;
  for (const std::string& variable : environment) {
    if (!AsksForCache(variable)) {
      filled.push_back(variable);
    } else if (path) {
      filled.push_back(variable.substr(0, variable.find('=') + 1) + *path);
    }
  }
  return filled;
}

std::string DriverCachePath(const std::string& state_dir, const DriverCacheOwner& owner) {
  const std::string domain = ToHex(Digest::Of(owner.domain).str()).substr(0, kDigestDigits);
  return absl::StrCat(state_dir, "/driver-cache/", VersionDirectory(owner), "/", owner.uid, "-",
                      domain);
}

absl::StatusOr<std::string> PrepareDriverCache(const std::string& state_dir,
                                               const DriverCacheOwner& owner,
                                               const std::optional<LaunchUser>& user) {
  const std::string root = state_dir + "/driver-cache";
  const std::string path = DriverCachePath(state_dir, owner);
  const std::string parent = path.substr(0, path.rfind('/'));
  for (const std::string& own : {root, parent}) {
    if (absl::Status made = MakeOwn(own); !made.ok()) return made;
  }
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return ops::SystemError(errno, "creating " + path);
  }
  // Only kcached can make entries here, so this is the directory just made, or one made before.
  if (user && lchown(path.c_str(), user->uid, user->gid) != 0) {
    return ops::SystemError(errno, "giving away " + path);
  }
  if (utimensat(AT_FDCWD, path.c_str(), nullptr, AT_SYMLINK_NOFOLLOW) != 0) {
    return ops::SystemError(errno, "touching " + path);
  }
  RemoveOtherVersions(root, owner);
  RemoveUnused(parent);
  return path;
}

}  // namespace kcache::workers
