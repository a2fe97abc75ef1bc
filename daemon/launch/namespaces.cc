// New namespaces: with privilege directly, else inside a user namespace of our own in which this user
// keeps its number.
//
// A user namespace has one more use: since Linux 5.14 RLIMIT_NPROC counts what a user runs in it, and not
// what the same user runs elsewhere. Compiles of all kinds run as one user, so without it the limit
// that stops one fork bomb fails every compile beside it.

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "daemon/launch/launch.h"

namespace kcache::launch {
namespace {

void WriteFile(const char* path, const std::string& text) {
  const int fd = open(path, O_WRONLY | O_CLOEXEC);
  if (fd < 0 || write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    Fail(std::string("writing ") + path, errno);
  }
  close(fd);
}

// The user keeps its number.
void MapOnly(uid_t uid, gid_t gid) {
  WriteFile("/proc/self/setgroups", "deny");
  WriteFile("/proc/self/uid_map", std::to_string(uid) + " " + std::to_string(uid) + " 1");
  WriteFile("/proc/self/gid_map", std::to_string(gid) + " " + std::to_string(gid) + " 1");
}

}  // namespace

bool EnterNamespaces(const Request& request) {
  constexpr int kNamespaces =
      CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(kNamespaces) == 0) return false;
  if (errno != EPERM) Fail("creating namespaces", errno);
  if (request.change_user) Fail("creating namespaces without CAP_SYS_ADMIN", EPERM);
  if (unshare(CLONE_NEWUSER | kNamespaces) != 0) Fail("creating a user namespace", errno);
  MapOnly(uid, gid);
  return true;
}

void CountProcessesApart() {
  const uid_t uid = geteuid();
  const gid_t gid = getegid();
  if (unshare(CLONE_NEWUSER) != 0) Fail("creating a user namespace", errno);
  // Who changed its user does not own its files in /proc.
  if (prctl(PR_SET_DUMPABLE, 1) != 0) Fail("owning /proc/self", errno);
  MapOnly(uid, gid);
}

}  // namespace kcache::launch
