#include "daemon/rpc/connection_table.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"
#include "daemon/ops/system_error.h"

namespace kcache::rpc {
namespace {

// Below are the descriptors of everything else; the range is wide, but the kernel's table is only as
// large as the highest number in use.
constexpr int kLowestNumber = 4096;
constexpr int kHighestNumber = 1 << 18;

bool HasExited(int pidfd) {
  pollfd state{pidfd, POLLIN, 0};
  return poll(&state, 1, 0) == 1;
}

}  // namespace

ConnectionTable::ConnectionTable(ops::EpollLoop* loop, Limits limits,
                                 std::function<void(const core::Peer&)> on_process_exit)
    : loop_(loop), limits_(limits), on_process_exit_(std::move(on_process_exit)) {
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  last_number_ =
      static_cast<int>(std::min<rlim_t>(files.rlim_cur, static_cast<rlim_t>(kHighestNumber))) - 1;
  first_number_ = std::min(kLowestNumber, last_number_ / 2);
  next_number_ = first_number_;
}

ConnectionTable::~ConnectionTable() {
  // No handler may come back for what is gone; Remove waits for one that runs.
  std::vector<ops::EpollLoop::WatchId> watches;
  {
    MutexLock lock(&mutex_);
    for (const auto& [number, connection] : connections_) watches.push_back(connection.watch);
    for (const auto& [pid, process] : processes_) watches.push_back(process.watch);
  }
  for (const ops::EpollLoop::WatchId watch : watches) loop_->Remove(watch);
}

absl::StatusOr<int> ConnectionTable::FreshNumber(int fd) {
  int number = fcntl(fd, F_DUPFD_CLOEXEC, next_number_);
  if (number < 0 || number > last_number_) {
    if (number >= 0) close(number);
    number = fcntl(fd, F_DUPFD_CLOEXEC, first_number_);
  }
  if (number < 0) return ops::SystemError(errno, "numbering a connection");
  next_number_ = number >= last_number_ ? first_number_ : number + 1;
  return number;
}

absl::StatusOr<int> ConnectionTable::Add(ops::UniqueFd socket) {
  auto identity = IdentifyPeer(socket.get());
  if (!identity.ok()) return identity.status();
  const core::Peer peer = identity->peer;
  {
    MutexLock lock(&mutex_);
    if (connections_.size() >= limits_.connections) {
      return absl::ResourceExhaustedError(
          absl::StrCat("connections.max = ", limits_.connections, " is reached"));
    }
    if (const auto own = per_uid_.find(peer.uid);
        own != per_uid_.end() && own->second >= limits_.connections_per_uid) {
      return absl::ResourceExhaustedError(absl::StrCat("connections.max_per_uid = ",
                                                       limits_.connections_per_uid,
                                                       " is reached by uid ", peer.uid));
    }
  }
  auto number = FreshNumber(socket.get());
  if (!number.ok()) return number.status();
  fcntl(*number, F_SETFL, fcntl(*number, F_GETFL) | O_NONBLOCK);

  Connection connection;
  connection.peer = peer;
  connection.serial = next_serial_++;
  connection.duplicate = std::move(socket);
  const int duplicate = connection.duplicate.get();
  const uint64_t serial = connection.serial;
  {
    MutexLock lock(&mutex_);
    Connection& slot = connections_[*number];
    if (slot.serial == 0) ++per_uid_[peer.uid];
    slot = std::move(connection);
  }
  auto watch = loop_->Add(duplicate, EPOLLRDHUP,
                          [this, number = *number, serial](uint32_t) { OnClosed(number, serial); });
  if (!watch.ok()) {
    OnClosed(*number, serial);
    close(*number);
    return watch.status();
  }
  {
    MutexLock lock(&mutex_);
    connections_[*number].watch = *watch;
  }
  if (identity->pidfd.valid()) WatchProcess(*std::move(identity));
  return *number;
}

void ConnectionTable::WatchProcess(PeerIdentity identity) {
  const pid_t pid = identity.peer.pid;
  uint64_t stale = 0;
  {
    MutexLock lock(&mutex_);
    if (const auto known = processes_.find(pid); known != processes_.end()) {
      // The same process, unless the one we know has exited and its number was given out again.
      if (!HasExited(known->second.pidfd.get())) return;
      stale = known->second.serial;
    }
  }
  if (stale != 0) OnProcessExit(pid, stale);
  const uint64_t serial = next_serial_++;
  const int fd = identity.pidfd.get();
  {
    MutexLock lock(&mutex_);
    Process& process = processes_[pid];
    process.peer = identity.peer;
    process.pidfd = std::move(identity.pidfd);
    process.serial = serial;
  }
  auto watch =
      loop_->Add(fd, EPOLLIN, [this, pid, serial](uint32_t) { OnProcessExit(pid, serial); });
  MutexLock lock(&mutex_);
  if (watch.ok()) {
    processes_[pid].watch = *watch;
  } else {
    processes_.erase(pid);
  }
}

void ConnectionTable::OnClosed(int number, uint64_t serial) {
  Connection closed;  // its descriptor is closed after its watch is gone
  {
    MutexLock lock(&mutex_);
    const auto found = connections_.find(number);
    if (found == connections_.end() || found->second.serial != serial) return;
    closed = std::move(found->second);
    connections_.erase(found);
    const auto own = per_uid_.find(closed.peer.uid);
    if (--own->second == 0) per_uid_.erase(own);
  }
  loop_->Remove(closed.watch);
}

void ConnectionTable::OnProcessExit(pid_t pid, uint64_t serial) {
  Process exited;
  {
    MutexLock lock(&mutex_);
    const auto found = processes_.find(pid);
    if (found == processes_.end() || found->second.serial != serial) return;
    exited = std::move(found->second);
    processes_.erase(found);
  }
  loop_->Remove(exited.watch);
  on_process_exit_(exited.peer);
}

absl::StatusOr<core::Peer> ConnectionTable::Find(std::string_view grpc_peer) const {
  constexpr std::string_view kPrefix = "fd:";
  int number = 0;
  if (grpc_peer.starts_with(kPrefix)) {
    const std::string_view digits = grpc_peer.substr(kPrefix.size());
    const char* const end = digits.data() + digits.size();
    const auto parsed = std::from_chars(digits.data(), end, number);
    if (parsed.ec == std::errc() && parsed.ptr == end) {
      MutexLock lock(&mutex_);
      const auto found = connections_.find(number);
      if (found != connections_.end()) return found->second.peer;
    }
  }
  return MakeError(v1::PERMISSION_DENIED,
                   absl::StrCat("the peer of the connection ", Quoted(grpc_peer),
                                " is not known"));
}

size_t ConnectionTable::size() const {
  MutexLock lock(&mutex_);
  return connections_.size();
}

size_t ConnectionTable::watched_processes() const {
  MutexLock lock(&mutex_);
  return processes_.size();
}

}  // namespace kcache::rpc
