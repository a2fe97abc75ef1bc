#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
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

// Root without capabilities, too: executing as uid 0 would give them all back.
void DropCapabilities() {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; ++capability) {
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);  // fails for who has none to drop
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct none[2] = {};
  if (syscall(SYS_capset, &header, none) != 0) Fail("dropping capabilities", errno);
}

// A descriptor of the program under a number that cannot be made again: RLIMIT_NOFILE is lowered to
// just that number before the program runs, and descriptors received later get low numbers. So a
// filter that lets only this number be executed lets nothing be executed afterwards. -1: the limit
// does not allow it.
int OpenOutOfReach(const char* program, const Request& request) {
  rlim_t files = 0;
  for (const auto& [limit, value] : request.limits) {
    if (limit == RLIMIT_NOFILE) files = value;
  }
  rlimit now{};
  getrlimit(RLIMIT_NOFILE, &now);
  if (files == 0 || files >= now.rlim_max) return -1;
  now.rlim_cur = now.rlim_max;
  setrlimit(RLIMIT_NOFILE, &now);
  const int fd = open(program, O_PATH | O_CLOEXEC);
  if (fd < 0) Fail(std::string("opening ") + program, errno);
  const int high = fcntl(fd, F_DUPFD_CLOEXEC, static_cast<int>(files));
  close(fd);
  return high;
}

}  // namespace

void JoinGroup(int procs_fd) {
  if (procs_fd >= 0 && write(procs_fd, "0", 1) != 1) Fail("joining the control group", errno);
}

void CloseAllBut(std::vector<int> keep) {
  std::sort(keep.begin(), keep.end());
  unsigned first = 3;
  for (const int fd : keep) {
    if (fd < static_cast<int>(first)) continue;
    if (static_cast<unsigned>(fd) > first) {
      syscall(SYS_close_range, first, static_cast<unsigned>(fd) - 1, 0);
    }
    first = static_cast<unsigned>(fd) + 1;
  }
  syscall(SYS_close_range, first, ~0u, 0);
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

void Become(const Request& request) {
  const char* program = request.command[0];
  if (!request.directory.empty() && chdir(request.directory.c_str()) != 0) {
    Fail("entering " + request.directory, errno);
  }
  const int exec_fd = request.no_exec ? OpenOutOfReach(program, request) : -1;
  SetLimits(request);
  DropCapabilities();
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) Fail("giving up new privileges", errno);
  LoadFilter(request.filter, exec_fd);
  if (exec_fd >= 0) {
    syscall(SYS_execveat, exec_fd, "", request.command.data(), environ, AT_EMPTY_PATH);
  } else {
    execv(program, request.command.data());
  }
  std::fprintf(stderr, "kcache-launch: executing %s: %s\n", program, std::strerror(errno));
  std::fflush(stderr);
  std::_Exit(kExecFailed);
}

}  // namespace kcache::launch
