#include "client/src/socket_error.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::internal {
namespace {

std::string Cause(const std::string& socket, const std::string& otherwise) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (socket.size() >= sizeof(address.sun_path)) {
    return absl::StrCat("the path has ", socket.size(), " bytes; a socket's path has at most ",
                        sizeof(address.sun_path) - 1);
  }
  std::memcpy(address.sun_path, socket.data(), socket.size());
  const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return std::strerror(errno);
  const bool connected =
      ::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  const int error = errno;
  ::close(fd);
  if (connected) return otherwise;
  switch (error) {
    case ENOENT:
      return "there is no such socket; is kcached running?";
    case ECONNREFUSED:
      return "nobody listens on it; kcached has ended";
    case EACCES:
      return "permission denied; the socket's owner and mode decide who may connect";
    default:
      return std::strerror(error);
  }
}

}  // namespace

absl::Status WhyUnreachable(const std::string& socket, const std::string& otherwise) {
  return MakeError(v1::DAEMON_UNREACHABLE, absl::StrCat("cannot reach the daemon at ", socket, ": ",
                                                        Cause(socket, otherwise)));
}

}  // namespace kcache::internal
