#include "tests/chaos/domains/native_code.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include <sstream>

#include "absl/strings/str_cat.h"
#include "tests/chaos/domains/player.h"
#include "tests/chaos/domains/process_tree.h"
#include "tests/chaos/domains/watcher.h"

namespace kcache::domains {

absl::StatusOr<NativeReport> RunNativeCode(const Cast& cast) {
  NativeReport report;
#if !defined(__x86_64__)
  report.skipped = "the kernel that makes system calls is written for x86-64";
  return report;
#endif
  auto daemon = testing::PrivateDaemon::Start(DaemonFor(cast, {}));
  if (!daemon.ok()) return daemon.status();
  {
    Watcher watcher((*daemon)->admin_socket());
    auto victim = Player::Start(cast.first, {"victim", (*daemon)->socket(), "OpenCL:0"});
    if (!victim.ok()) return victim.status();
    auto stranger = Player::Start(cast.second, {"native", (*daemon)->socket(), "OpenCL:0"});
    if (!stranger.ok()) return stranger.status();
    auto domain = watcher.DomainOf((*victim)->pid());
    if (!domain.ok()) return domain.status();
    auto launcher = watcher.HostOf(*domain, "OpenCL", 0);
    if (!launcher.ok()) return launcher.status();
    const std::vector<ProcessEntry> hosts = Backends(*launcher);
    if (hosts.empty()) return absl::InternalError("the victim's host has no process");

    const std::string state = (*daemon)->directory() + "/state";
    const auto call = [&](const std::string& name, long number, const std::string& arguments) {
      (*stranger)->Tell(absl::StrCat("call ", name, " ", number, " ", arguments));
    };
    // That system calls are made at all: this one succeeds.
    call("getpid", SYS_getpid, "0 0 0 0");
    const struct {
      const char* who;
      pid_t pid;
    } targets[] = {{"host", hosts[0].pid}, {"daemon", (*daemon)->pid()}};
    for (const auto& target : targets) {
      const std::string who = target.who;
      const std::string pid = std::to_string(target.pid);
      call("signal-" + who, SYS_kill, absl::StrCat(pid, " ", SIGKILL, " 0 0"));
      call("signal-thread-of-" + who, SYS_tkill, absl::StrCat(pid, " ", SIGKILL, " 0 0"));
      call("trace-" + who, SYS_ptrace, absl::StrCat(PTRACE_ATTACH, " ", pid, " 0 0"));
      call("seize-" + who, SYS_ptrace, absl::StrCat(PTRACE_SEIZE, " ", pid, " 0 0"));
      call("read-memory-of-" + who, SYS_process_vm_readv, pid + " =x 0 =x");
      call("write-memory-of-" + who, SYS_process_vm_writev, pid + " =x 0 =x");
      call("open-memory-of-" + who, SYS_open, absl::StrCat("=/proc/", pid, "/mem ", O_RDWR, " 0 0"));
      call("hold-" + who, SYS_pidfd_open, pid + " 0 0 0");
    }
    call("write-state", SYS_open, absl::StrCat("=", state, "/x ", O_WRONLY | O_CREAT, " 438 0"));
    call("list-state", SYS_open, absl::StrCat("=", state, " ", O_RDONLY | O_DIRECTORY, " 0 0"));
    call("list-hosts-directory", SYS_open,
         absl::StrCat("=", DirectoryOf(*launcher), " ", O_RDONLY | O_DIRECTORY, " 0 0"));
    call("write-hosts-directory", SYS_open,
         absl::StrCat("=", DirectoryOf(*launcher), "/x ", O_WRONLY | O_CREAT, " 438 0"));
    call("reach-admin-socket", SYS_access, absl::StrCat("=", (*daemon)->admin_socket(), " 0 0 0"));
    call("remove-client-socket", SYS_unlink, absl::StrCat("=", (*daemon)->socket(), " 0 0 0"));
    call("write-program", SYS_open, absl::StrCat("=/usr/bin/env ", O_WRONLY, " 0 0"));
    call("mount", SYS_mount, "=none =/ =tmpfs 0");
    call("new-user-namespace", SYS_unshare, "268435456 0 0 0");
    (*stranger)->Tell("go");
    bool calls_are_made = false;
    for (;;) {
      auto line = (*stranger)->Await("");
      if (!line.ok()) return line.status();
      if (*line == "done") break;
      std::istringstream in(*line);
      std::string word;
      NativeAttempt attempt;
      long result = 0;
      in >> word >> attempt.what >> result;
      if (attempt.what == "getpid") {
        calls_are_made = result > 0;
        continue;
      }
      attempt.refused = result < 0 && result > -4096;
      const char* name = attempt.refused ? strerrorname_np(static_cast<int>(-result)) : nullptr;
      attempt.error = name != nullptr ? name : std::to_string(result);
      // A bad address would only say that the call got as far as reading its arguments.
      if (result == -EFAULT || result == -ENOSYS) attempt.refused = false;
      report.refused += attempt.refused;
      report.attempts.push_back(std::move(attempt));
    }
    if (!calls_are_made) return absl::InternalError("the kernel makes no system calls");
    (*victim)->Tell("is everything fine?");
    report.victim_is_fine = (*victim)->Await("fine").ok() && Runs(hosts[0]);
    for (Player* player : {victim->get(), stranger->get()}) {
      if (absl::Status ended = player->Finish(); !ended.ok()) return ended;
    }
  }
  if (absl::Status stopped = (*daemon)->Stop(); !stopped.ok()) return stopped;
  return report;
}

}  // namespace kcache::domains
