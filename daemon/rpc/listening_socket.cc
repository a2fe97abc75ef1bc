#include "daemon/rpc/listening_socket.h"

#include <fcntl.h>
#include <grp.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace kcache::rpc {
namespace {

absl::Status Failed(const std::string& what, const std::string& path) {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot ", what, " ", path));
}

// The lock file holds its owner's pid, for the message.
absl::StatusOr<ops::UniqueFd> Lock(const std::string& path) {
  const std::string file = path + ".lock";
  ops::UniqueFd lock(open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock.valid()) return Failed("open", file);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    char pid[32] = {};
    const ssize_t size = pread(lock.get(), pid, sizeof pid - 1, 0);
    return absl::AlreadyExistsError(absl::StrCat(
        "another kcached (pid ", size > 0 ? pid : "unknown", ") serves ", path));
  }
  const std::string mine = std::to_string(getpid());
  if (ftruncate(lock.get(), 0) != 0 ||
      pwrite(lock.get(), mine.data(), mine.size(), 0) != static_cast<ssize_t>(mine.size())) {
    return Failed("write", file);
  }
  return lock;
}

}  // namespace

bool GroupExists(const std::string& group) { return getgrnam(group.c_str()) != nullptr; }

absl::StatusOr<ListeningSocket> ListeningSocket::Open(const SocketOptions& options) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (options.path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(absl::StrCat("socket path ", options.path, " has ",
                                                   options.path.size(), " bytes; the limit is ",
                                                   sizeof address.sun_path - 1));
  }
  std::memcpy(address.sun_path, options.path.data(), options.path.size());
  auto lock = Lock(options.path);
  if (!lock.ok()) return lock.status();

  gid_t group = static_cast<gid_t>(-1);
  if (!options.group.empty()) {
    const struct group* entry = getgrnam(options.group.c_str());
    if (entry == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("group ", options.group, " of socket ", options.path, " does not exist"));
    }
    group = entry->gr_gid;
  }
  struct stat old {};
  if (lstat(options.path.c_str(), &old) == 0) {
    if (!S_ISSOCK(old.st_mode)) {
      return absl::AlreadyExistsError(
          absl::StrCat(options.path, " exists and is no socket; it is not replaced"));
    }
    if (unlink(options.path.c_str()) != 0) return Failed("remove the stale socket", options.path);
  }
  ops::UniqueFd socket_fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket_fd.valid()) return Failed("make a socket for", options.path);
  // Nobody connects between bind and chmod: the mode is set before listen.
  if (bind(socket_fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Failed("bind", options.path);
  }
  if (group != static_cast<gid_t>(-1) &&
      lchown(options.path.c_str(), static_cast<uid_t>(-1), group) != 0) {
    return Failed("set the group of", options.path);
  }
  if (chmod(options.path.c_str(), options.mode) != 0) return Failed("set the mode of", options.path);
  if (listen(socket_fd.get(), SOMAXCONN) != 0) return Failed("listen on", options.path);
  return ListeningSocket(options.path, *std::move(lock), std::move(socket_fd));
}

ListeningSocket::~ListeningSocket() {
  if (!socket_.valid()) return;
  unlink(path_.c_str());
  // The lock file stays: removing it would let two daemons lock two files of one name.
}

}  // namespace kcache::rpc
