#include "tests/chaos/domains/host_crashes.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/chaos/domains/player.h"
#include "tests/chaos/domains/process_tree.h"
#include "tests/chaos/domains/watcher.h"

namespace kcache::domains {
namespace {

constexpr int kClientsEach = 4;
// Where every session is a domain, each client has a host of its own. So many processes that never rest leave
// a new one without a processor for seconds, where the kernel shares it out by session (autogroups): what would
// be measured is that. So they pause, and it is a host's return.
constexpr int kSessionsEach = 2;
constexpr char kSessionsPauseMs[] = "2";
constexpr char kFamily[] = "OpenCL";

// What the clients of one side have told.
class Side {
 public:
  void OnLine(const std::string& line) {
    std::istringstream in(line);
    std::string word;
    int64_t begin = 0, end = 0;
    in >> word >> begin >> end;
    MutexLock lock(&mutex_);
    if (word == "ok") {
      ++launches_;
      if (after_ != 0 && begin >= after_ && (first_end_ == 0 || end < first_end_)) {
        first_end_ = end;
        changed_.NotifyAll();
      }
    } else {
      failures_.Add(line);
    }
  }
  // Starts to look for the first launch that begins from now on.
  void LookFrom(int64_t time) {
    MutexLock lock(&mutex_);
    after_ = time;
    first_end_ = 0;
  }
  absl::StatusOr<int64_t> AwaitLaunch() {
    const auto deadline = std::chrono::steady_clock::now() + Player::kPatience;
    MutexLock lock(&mutex_);
    while (first_end_ == 0) {
      if (!changed_.WaitUntil(&mutex_, deadline)) {
        return absl::DeadlineExceededError("no launch has succeeded since the crash; the first "
                                           "failure was: " + failures_.first);
      }
    }
    return first_end_;
  }
  uint64_t launches() {
    MutexLock lock(&mutex_);
    return launches_;
  }
  Failures failures() {
    MutexLock lock(&mutex_);
    return failures_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  uint64_t launches_ ABSL_GUARDED_BY(mutex_) = 0;
  Failures failures_ ABSL_GUARDED_BY(mutex_);
  int64_t after_ ABSL_GUARDED_BY(mutex_) = 0;
  int64_t first_end_ ABSL_GUARDED_BY(mutex_) = 0;
};

// Sends SIGSEGV to the backend program below `launcher` and waits for its end. The times before and
// after.
struct Crash {
  int64_t sent = 0;
  int64_t dead = 0;
};

absl::StatusOr<Crash> Kill(pid_t launcher) {
  const std::vector<ProcessEntry> backends = Backends(launcher);
  if (backends.empty()) return absl::NotFoundError("the host has no process");
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, backends[0].pid, 0));
  if (pidfd < 0) return absl::NotFoundError("the host has just ended");
  Crash crash{.sent = MonotonicNow()};
  // PoCL's LLVM has a handler that takes itself away and returns to the instruction that was at fault.
  // None was: the next signal finds no handler.
  int ended = 0;
  for (int i = 0; i < 1000 && ended == 0; ++i) {
    syscall(SYS_pidfd_send_signal, pidfd, SIGSEGV, nullptr, 0);
    pollfd event{pidfd, POLLIN, 0};
    ended = poll(&event, 1, 10);
  }
  crash.dead = MonotonicNow();
  close(pidfd);
  if (ended != 1) return absl::DeadlineExceededError("the host survives SIGSEGV");
  return crash;
}

}  // namespace

absl::StatusOr<HostCrashReport> CrashHosts(const Cast& cast, int crashes) {
  // A context is put on hold after three crashes in a minute. Here each crash counts for itself, so
  // that what is measured is one fault, not the backoff of many.
  auto daemon = testing::PrivateDaemon::Start(
      DaemonFor(cast, {"--hosts.crashes-to-hold=1000", "--hosts.crash-window=10ms"}));
  if (!daemon.ok()) return daemon.status();
  HostCrashReport report;
  Side own, other;
  {
    Watcher watcher((*daemon)->admin_socket());
    std::vector<std::unique_ptr<Player>> players;
    const int each = cast.two_users() ? kClientsEach : kSessionsEach;
    for (int i = 0; i < 2 * each; ++i) {
      const bool first_user = i < each;
      // Without two users, the first client is a domain by itself.
      const bool is_own = cast.two_users() ? first_user : i == 0;
      Side* side = is_own ? &own : &other;
      auto player = Player::Start(first_user ? cast.first : cast.second,
                                  {"launch", (*daemon)->socket(), "OpenCL:0", "host crashes",
                                   cast.two_users() ? "0" : kSessionsPauseMs},
                                  [side](const std::string& line) { side->OnLine(line); });
      if (!player.ok()) return player.status();
      players.push_back(*std::move(player));
    }
    auto domain = watcher.DomainOf(players[0]->pid());
    if (!domain.ok()) return domain.status();
    for (int i = 0; i < crashes; ++i) {
      auto host = watcher.HostOf(*domain, kFamily, 0);
      if (!host.ok()) return host.status();
      auto crash = Kill(*host);
      if (!crash.ok()) return crash.status();
      own.LookFrom(crash->dead);
      auto good = own.AwaitLaunch();
      if (!good.ok()) return good.status();
      report.recover_ms.push_back(static_cast<double>(*good - crash->sent) / 1e6);
      ++report.crashes;
    }
    for (auto& player : players) {
      if (absl::Status ended = player->Finish(); !ended.ok()) return ended;
    }
    // Their threads have heard everything when they are gone.
    players.clear();
    auto status = watcher.Status();
    if (!status.ok()) return status.status();
    if (status->host_crashes() != static_cast<uint64_t>(crashes)) {
      return absl::InternalError(absl::StrCat("the daemon counts ", status->host_crashes(),
                                              " crashes of hosts, not ", crashes, "; the last: ",
                                              watcher.LastOf("context-lost")));
    }
  }
  report.own_launches = own.launches();
  report.own_failures = own.failures().count;
  report.other_launches = other.launches();
  report.other_failures = other.failures();
  if (absl::Status stopped = (*daemon)->Stop(); !stopped.ok()) return stopped;
  return report;
}

}  // namespace kcache::domains
