#include "daemon/rpc/acceptor.h"

#include <fcntl.h>
#include <grpcpp/server_posix.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kcache::rpc {
namespace {

constexpr int kFirstFd = 1024;  // below: the daemon's own descriptors

bool IsHex64(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// Descriptor numbers above which gRPC connections live; small limits leave little room.
int FirstFd() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur > 2 * kFirstFd ? kFirstFd : static_cast<int>(limit.rlim_cur / 2);
}

}  // namespace

// Container runtimes name a container's cgroup after its 64-digit id: "docker-<id>.scope",
// "cri-containerd-<id>.scope", "/docker/<id>".
std::string ContainerOf(pid_t pid) {
  if (pid <= 0) return "";
  std::ifstream file(absl::StrCat("/proc/", pid, "/cgroup"));
  std::string line;
  while (std::getline(file, line)) {
    size_t begin = line.rfind('/');
    if (begin == std::string::npos) continue;
    std::string leaf = line.substr(begin + 1);
    if (size_t dot = leaf.rfind('.'); dot != std::string::npos) leaf = leaf.substr(0, dot);
    if (size_t dash = leaf.rfind('-'); dash != std::string::npos) leaf = leaf.substr(dash + 1);
    if (IsHex64(leaf)) return leaf.substr(0, 12);
  }
  return "";
}

absl::Status Acceptor::Start(int listening_fd) {
  listening_fd_ = listening_fd;
  next_fd_ = FirstFd();
  auto watch = loop_->Add(listening_fd, EPOLLIN, [this](uint32_t) { Accept(); });
  if (!watch.ok()) return watch.status();
  watch_ = *watch;
  return absl::OkStatus();
}

void Acceptor::Stop() {
  if (watch_ == 0) return;
  loop_->Remove(watch_);
  watch_ = 0;
}

void Acceptor::Accept() {
  // A bounded share of the loop: many who connect at once do not keep exits from being noticed.
  for (int i = 0; i < 64; ++i) {
    const int accepted =
        accept4(listening_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted >= 0) {
      Take(accepted);
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

void Acceptor::Take(int accepted) {
  ops::UniqueFd connection(accepted);
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (getsockopt(accepted, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) return;
  core::Peer peer{.uid = credentials.uid,
                  .gid = credentials.gid,
                  .pid = credentials.pid,
                  .container = ContainerOf(credentials.pid)};
  int fresh = fcntl(accepted, F_DUPFD_CLOEXEC, next_fd_);
  if (fresh < 0) fresh = fcntl(accepted, F_DUPFD_CLOEXEC, FirstFd());  // around once
  if (fresh < 0) return;  // out of descriptors: the peer sees the connection close
  next_fd_ = fresh + 1;
  peers_->Add(fresh, peer);
  if (peer.pid > 0) WatchProcess(peer);
  grpc::AddInsecureChannelFromFd(server_, fresh);
}

void Acceptor::WatchProcess(const core::Peer& peer) {
  if (processes_.contains(peer.pid)) return;
  ops::UniqueFd pidfd(static_cast<int>(syscall(SYS_pidfd_open, peer.pid, 0)));
  if (!pidfd.valid()) {
    // Gone already: what it sent is still read, and its session ends when its stream closes.
    on_exit_(peer);
    return;
  }
  auto watch = loop_->Add(pidfd.get(), EPOLLIN, [this, pid = peer.pid](uint32_t) { OnExit(pid); });
  if (!watch.ok()) return;  // its session then ends by its TTL
  processes_[peer.pid] = {peer, std::move(pidfd), *watch};
}

void Acceptor::OnExit(pid_t pid) {
  auto found = processes_.find(pid);
  if (found == processes_.end()) return;
  const core::Peer peer = found->second.peer;
  loop_->Remove(found->second.watch);
  processes_.erase(found);
  peers_->Forget(pid);
  on_exit_(peer);
}

}  // namespace kcache::rpc
