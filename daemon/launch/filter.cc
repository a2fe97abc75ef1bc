// The seccomp filter: what no backend needs fails with EPERM, so that a library that merely tries goes
// on without. A list of what is denied, not of what is allowed: drivers and compilers change the
// calls that they make with every release.

#include <sched.h>
#include <seccomp.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <initializer_list>

#include "daemon/launch/launch.h"

namespace kcache::launch {
namespace {

constexpr const char* kDenied[] = {
    // other processes
    "ptrace", "process_vm_readv", "process_vm_writev", "pidfd_getfd", "process_madvise", "kcmp",
    // mounts and namespaces
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen",
    "fsconfig", "fsmount", "fspick", "mount_setattr", "unshare", "setns", "open_by_handle_at",
    // identity
    "setuid", "setgid", "setreuid", "setregid", "setresuid", "setresgid", "setgroups", "setfsuid",
    "setfsgid", "capset",
    // keys, programs in the kernel, and other large surfaces
    "keyctl", "add_key", "request_key", "bpf", "perf_event_open", "userfaultfd", "io_uring_setup",
    "io_uring_enter", "io_uring_register", "lookup_dcookie",
    // the machine
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot",
    "swapon", "swapoff", "acct", "quotactl", "quotactl_fd", "settimeofday", "clock_settime",
    "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "iopl", "ioperm", "syslog",
    "vhangup", "nfsservctl", "mknod", "mknodat", "fanotify_init",
};

constexpr uint64_t kNewNamespaces = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET;

void Check(int result, const char* doing) {
  if (result < 0) Fail(std::string("building the system call filter: ") + doing, -result);
}

}  // namespace

void LoadFilter(Filter filter, int exec_fd) {
  if (filter == Filter::kNone) return;
  scmp_filter_ctx context = seccomp_init(SCMP_ACT_ALLOW);
  if (context == nullptr) Fail("building the system call filter");
  for (const char* name : kDenied) {
    const int number = seccomp_syscall_resolve_name(name);
    if (number == __NR_SCMP_ERROR) continue;  // newer than this libseccomp, or of another machine
    const int added = seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), number, 0);
    if (added != -EDOM && added != -EFAULT) Check(added, name);
  }
  // clone3 hides its flags from filters. Without it the C library falls back to clone.
  Check(seccomp_rule_add(context, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0), "clone3");
  for (uint64_t flag = 1; flag != 0; flag <<= 1) {
    if ((kNewNamespaces & flag) == 0) continue;
    Check(seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1,
                           SCMP_A0(SCMP_CMP_MASKED_EQ, flag, flag)),
          "clone");
  }
  // Sockets: local ones, and for drivers that ask the kernel about devices, netlink.
  for (int domain = 0; domain < AF_MAX; ++domain) {
    if (domain == AF_UNIX || (domain == AF_NETLINK && filter == Filter::kDevice)) continue;
    Check(seccomp_rule_add(context, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                           SCMP_A0(SCMP_CMP_EQ, static_cast<uint64_t>(domain))),
          "socket");
  }
  if (exec_fd >= 0) {
    Check(seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(execve), 0), "execve");
    Check(seccomp_rule_add(context, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(execveat), 1,
                           SCMP_A0(SCMP_CMP_NE, static_cast<uint64_t>(exec_fd))),
          "execveat");
  }
  Check(seccomp_load(context), "loading it");
  seccomp_release(context);
}

}  // namespace kcache::launch
