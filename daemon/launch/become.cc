#include <grp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "daemon/launch/launch.h"

namespace kcache::launch {
namespace {

// From linux/ioprio.h, which Debian 12's headers have, but not every libc's user space.
constexpr int kIoprioWhoProcess = 1;
constexpr int kIoprioIdle = 3 << 13;
constexpr int kIoprioIdleFromNice = 10;

void SetLimits(const Request& request) {
  for (const auto& [limit, value] : request.limits) {
    rlimit now{};
    getrlimit(static_cast<__rlimit_resource>(limit), &now);
    // Never above what this process itself may have.
    const rlim_t wanted = std::min<rlim_t>(value, now.rlim_max);
    rlimit next{wanted, wanted};
    // One second between SIGXCPU, which names the cause, and SIGKILL.
    if (limit == RLIMIT_CPU && wanted < now.rlim_max) next.rlim_max = wanted + 1;
    if (setrlimit(static_cast<__rlimit_resource>(limit), &next) != 0) {
      Fail("setting a resource limit to " + std::to_string(value), errno);
    }
  }
}

void SetPriority(int nice_by) {
  if (nice_by <= 0) return;
  errno = 0;
  if (nice(nice_by) == -1 && errno != 0) Fail("lowering the priority", errno);
  if (nice_by >= kIoprioIdleFromNice) {
    // Best effort: not every kernel has I/O priorities.
    syscall(SYS_ioprio_set, kIoprioWhoProcess, 0, kIoprioIdle);
  }
}

void ChangeUser(const Request& request) {
  if (!request.change_user) return;
  if (setgroups(request.groups.size(), request.groups.data()) != 0) {
    Fail("setting the supplementary groups", errno);
  }
  if (setresgid(request.gid, request.gid, request.gid) != 0) {
    Fail("becoming gid " + std::to_string(request.gid), errno);
  }
  if (setresuid(request.uid, request.uid, request.uid) != 0) {
    Fail("becoming uid " + std::to_string(request.uid), errno);
  }
  if (request.uid != 0 && setresuid(0, 0, 0) == 0) Fail("uid 0 could be taken back");
}

// After the change of user, which clears it.
void DieWithParent(pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail("arming the parent-death signal", errno);
  if (getppid() != parent) Fail("kcached has ended meanwhile");
}

void ResetSignals() {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (signal != SIGKILL && signal != SIGSTOP) std::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
}

}  // namespace

void Become(const Request& request) {
  ResetSignals();
  SetPriority(request.nice);
  SetLimits(request);
  ChangeUser(request);
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Fail("giving up new privileges", errno);
  if (!request.directory.empty() && chdir(request.directory.c_str()) != 0) {
    Fail("entering " + request.directory, errno);
  }
  DieWithParent(request.parent);
  execv(request.command[0], request.command.data());
  std::fprintf(stderr, "kcache-launch: executing %s: %s\n", request.command[0],
               std::strerror(errno));
  std::fflush(stderr);
  std::_Exit(kExecFailed);
}

}  // namespace kcache::launch
