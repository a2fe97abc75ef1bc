// kcache-launch: becomes a backend program, with less power than it was given.
//
//   kcache-launch --parent=PID [options] -- PROGRAM ARGUMENT…
//
// kcached starts every backend through this program, because what has to happen between fork and
// exec (changing the user, limits, namespaces, a seccomp filter) wants a process with one thread.
// File descriptors are arranged by kcached beforehand and pass through.
//
//   --parent=PID          the process whose death must be this one's; checked after arming
//   --uid=N --gid=N       become this user (needs privilege)
//   --groups=N,N          supplementary groups; none when absent
//   --limit=NAME=VALUE    a resource limit: as, core, cpu, data, fsize, nofile, nproc
//   --nice=N              added to the niceness; I/O class idle from 10 on
//   --directory=PATH      working directory
//
// Exit status 126: an option cannot be honoured; 127: PROGRAM cannot be executed. The reason is on
// stderr, which kcached keeps as the process's last words.

#include "daemon/launch/launch.h"

int main(int argc, char** argv) {
  kcache::launch::Request request = kcache::launch::ParseArguments(argc, argv);
  kcache::launch::Become(request);
}
