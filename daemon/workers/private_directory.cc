#include "daemon/workers/private_directory.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "daemon/ops/system_error.h"

namespace kcache::workers {

absl::StatusOr<std::string> MakePrivateDirectory(const std::string& parent,
                                                 const std::string& name,
                                                 const std::optional<LaunchUser>& user) {
  std::string path = parent + "/" + name + "-XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    return ops::SystemError(errno, "creating a directory in " + parent);
  }
  if (user && chown(path.c_str(), user->uid, user->gid) != 0) {
    const int error = errno;
    rmdir(path.c_str());
    return ops::SystemError(error, "giving away " + path);
  }
  return path;
}

void RemoveTree(const std::string& path) {
  std::error_code ignored;
  // A directory that was made unreadable is opened up first; root needs no permission, and must not
  // change modes by path below a directory that is somebody else's.
  if (geteuid() != 0) {
    for (std::filesystem::recursive_directory_iterator
             entry(path, std::filesystem::directory_options::skip_permission_denied, ignored),
         end;
         !ignored && entry != end; entry.increment(ignored)) {
      if (entry->symlink_status(ignored).type() == std::filesystem::file_type::directory) {
        chmod(entry->path().c_str(), 0700);
      }
    }
  }
  std::filesystem::remove_all(path, ignored);
}

}  // namespace kcache::workers
