#include "daemon/rpc/peer_identity.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/ops/system_error.h"

namespace kcache::rpc {
namespace {

constexpr int kSoPeerPidfd = 77;  // SO_PEERPIDFD, since Linux 6.5
constexpr size_t kContainerIdDigits = 64;

bool IsHex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); }

// The first run of exactly 64 hexadecimal digits.
std::string_view FindContainerId(std::string_view path) {
  for (size_t i = 0; i < path.size();) {
    size_t end = i;
    while (end < path.size() && IsHex(path[end])) ++end;
    if (end - i == kContainerIdDigits) return path.substr(i, end - i);
    i = end + 1;
  }
  return {};
}

// The path component that follows `marker`, without a trailing suffix.
std::string_view NameAfter(std::string_view path, std::string_view marker,
                           std::string_view suffix) {
  const size_t start = path.find(marker);
  if (start == std::string_view::npos) return {};
  std::string_view name = path.substr(start + marker.size());
  name = name.substr(0, name.find('/'));
  if (name.ends_with(suffix)) name.remove_suffix(suffix.size());
  return name;
}

bool StillConnected(int socket) {
  pollfd state{socket, POLLRDHUP, 0};
  return poll(&state, 1, 0) >= 0 && (state.revents & (POLLHUP | POLLRDHUP | POLLERR)) == 0;
}

ops::UniqueFd PidfdOf(int socket, pid_t pid) {
  int fd = -1;
  socklen_t length = sizeof fd;
  if (getsockopt(socket, SOL_SOCKET, kSoPeerPidfd, &fd, &length) == 0) return ops::UniqueFd(fd);
  if (errno == ESRCH) return {};
  ops::UniqueFd opened(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (opened.valid() && !StillConnected(socket)) opened.Reset();
  return opened;
}

}  // namespace

std::string ContainerOf(std::string_view cgroups) {
  while (!cgroups.empty()) {
    const size_t end = cgroups.find('\n');
    const std::string_view line = cgroups.substr(0, end);
    cgroups = end == std::string_view::npos ? std::string_view() : cgroups.substr(end + 1);
    // "hierarchy:controllers:path"
    const size_t colon = line.find(':', line.find(':') + 1);
    if (colon == std::string_view::npos) continue;
    const std::string_view path = line.substr(colon + 1);
    if (const std::string_view id = FindContainerId(path); !id.empty()) return std::string(id);
    for (const auto& [marker, suffix] :
         {std::pair<std::string_view, std::string_view>{"/lxc.payload.", ""},
          {"/lxc/", ""},
          {"/machine.slice/machine-", ".scope"},
          {"/machine.slice/systemd-nspawn@", ".service"}}) {
      if (const std::string_view name = NameAfter(path, marker, suffix); !name.empty()) {
        return std::string(name);
      }
    }
  }
  return "";
}

absl::StatusOr<PeerIdentity> IdentifyPeer(int socket) {
  ucred credentials{};
  socklen_t length = sizeof credentials;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return ops::SystemError(errno, "reading a peer's credentials");
  }
  PeerIdentity identity;
  identity.peer.uid = credentials.uid;
  identity.peer.gid = credentials.gid;
  identity.peer.pid = credentials.pid;
  if (credentials.pid == 0) return identity;
  identity.pidfd = PidfdOf(socket, credentials.pid);
  // Read between the pidfd and the check that it is alive: so it is this process's.
  std::ifstream file(absl::StrCat("/proc/", credentials.pid, "/cgroup"));
  std::ostringstream cgroups;
  cgroups << file.rdbuf();
  if (identity.pidfd.valid()) {
    pollfd exited{identity.pidfd.get(), POLLIN, 0};
    if (poll(&exited, 1, 0) == 0) identity.peer.container = ContainerOf(cgroups.str());
  }
  return identity;
}

}  // namespace kcache::rpc
