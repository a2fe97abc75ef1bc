#include "daemon/workers/execution_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ops/system_error.h"

namespace kcache::workers {
namespace {

constexpr int kBacklog = 1024;

}  // namespace

absl::StatusOr<ExecutionSocket> MakeExecutionSocket(const std::string& directory) {
  static std::atomic<uint64_t> counter{0};
  ExecutionSocket result;
  // The directory was emptied at start, so a counter is unique in it.
  result.path = absl::StrCat(directory, "/", counter.fetch_add(1) + 1, ".sock");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (result.path.size() >= sizeof address.sun_path) {
    return absl::InvalidArgumentError(
        absl::StrCat("the socket path ", result.path, " has ", result.path.size(),
                     " bytes; the limit is ", sizeof address.sun_path - 1,
                     "; choose a shorter runtime_dir"));
  }
  std::memcpy(address.sun_path, result.path.data(), result.path.size());
  result.listening = ops::UniqueFd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!result.listening.valid()) return ops::SystemError(errno, "creating a socket");
  if (bind(result.listening.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) !=
      0) {
    return ops::SystemError(errno, "binding " + result.path);
  }
  if (chmod(result.path.c_str(), 0666) != 0) {
    return ops::SystemError(errno, "setting the mode of " + result.path);
  }
  if (listen(result.listening.get(), kBacklog) != 0) {
    return ops::SystemError(errno, "listening on " + result.path);
  }
  return result;
}

}  // namespace kcache::workers
