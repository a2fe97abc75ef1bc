// kcache-launch: becomes a backend program, with less power than it was given.
//
//   kcache-launch --parent=PID [options] -- PROGRAM ARGUMENT…
//
// kcached starts every backend through this program, because what has to happen between fork and
// exec (changing the user, limits, namespaces, a seccomp filter) wants a process with one thread.
// File descriptors are arranged by kcached beforehand.
//
//   --parent=PID          the process whose death must be this one's; checked after arming
//   --uid=N --gid=N       become this user (needs privilege)
//   --groups=N,N          supplementary groups; none when absent
//   --limit=NAME=VALUE    a resource limit: as, core, cpu, data, fsize, nofile, nproc
//   --nice=N              added to the niceness; I/O class idle from 10 on
//   --group-fd=N          cgroup.procs of the control group to be in, opened by kcached
//   --keep=N              a descriptor that passes through, besides 0, 1 and 2; all others are closed
//   --directory=PATH      working directory; the only one that can be written in namespaces
//
//   --root=minimal        namespaces, with a file system of /usr, what --show names, and --directory
//   --root=hidden         namespaces, with the file system as it is, read-only, without what --hide
//                         names; for drivers that need more than anybody can list
//   --show=PATH           visible, read-only; may be missing
//   --hide=PATH           empty (hidden root only)
//   --device=PATH         a device node that is visible besides null, zero, full, random, urandom;
//                         with a hidden root and no --device all of them are
//   --count-apart         --limit=nproc=… is for this command alone, and not for all that its user runs: it
//                         gets a user namespace of its own, in which Linux counts apart since 5.14
//   --status-fd=N         a socket on which a pidfd of the namespaces' first process is sent: when
//                         that is readable, every process in them is gone
//   --filter=device       system calls that a backend never needs fail with EPERM, and so do sockets
//                         other than local ones
//   --filter=compile      the same without netlink; with --no-exec also without executing anything
//
// Exit status 126: an option cannot be honoured; 127: PROGRAM cannot be executed. The reason is on
// stderr, which kcached keeps as the process's last words.

#include <utility>
#include <vector>

#include "daemon/launch/launch.h"

int main(int argc, char** argv) {
  const kcache::launch::Request request = kcache::launch::ParseArguments(argc, argv);
  // First: what is started or allocated from here on is the group's.
  kcache::launch::JoinGroup(request.group_fd);
  std::vector<int> keep = request.keep;
  keep.push_back(request.status_fd);
  kcache::launch::CloseAllBut(std::move(keep));
  kcache::launch::ResetSignals();
  kcache::launch::SetPriority(request.nice);
  if (request.root == kcache::launch::Root::kShared) {
    kcache::launch::ChangeUser(request);
    kcache::launch::DieWithParent(request.parent);
    kcache::launch::Become(request);
  }
  kcache::launch::RunIsolated(request);
}
