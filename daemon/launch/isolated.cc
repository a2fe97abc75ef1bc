// A command in namespaces takes three processes:
//
//   kcache-launch   kcached's child, outside; waits, and ends the way the command ended
//    └─ init        the first process of the pid namespace: reaps; when it goes, the kernel ends every
//       │           process in the namespace, however it hides
//       └─ command
//
// The command is not that first process itself, because the kernel spares a first process the
// signals that it has no handler for, abort() included.
//
// Death comes from above: kcached's ends kcache-launch, that ends init, that ends all.

#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "daemon/launch/launch.h"

namespace kcache::launch {
namespace {

void SendPidfd(int socket, int pidfd) {
  char byte = 'p';
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &pidfd, sizeof pidfd);
  if (sendmsg(socket, &message, MSG_NOSIGNAL) != 1) Fail("telling kcached of init", errno);
}

// Waits for `command`, reaping whoever else ends; answers its wait status.
int Reap(pid_t command) {
  for (;;) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, 0);
    if (ended == command) return status;
    if (ended < 0 && errno != EINTR) return kSetupFailed << 8;
  }
}

[[noreturn]] void Init(const Request& request, bool in_user_namespace, int go, int result) {
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail("arming the parent-death signal", errno);
  MountProc();
  ChangeUser(request);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Closed without a byte: kcache-launch died before the signal was armed.
  char byte = 0;
  if (read(go, &byte, 1) != 1) std::_Exit(kSetupFailed);
  close(go);
  const pid_t command = fork();
  if (command < 0) Fail("forking", errno);
  if (command == 0) {
    close(result);
    if (request.status_fd >= 0) close(request.status_fd);
    if (request.count_apart && !in_user_namespace) CountProcessesApart();
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) Fail("arming the parent-death signal", errno);
    Become(request);
  }
  // The control socket's other end must notice when the command is gone.
  CloseAllBut({result});
  const int status = Reap(command);
  (void)!write(result, &status, sizeof status);
  std::_Exit(0);
}

[[noreturn]] void EndAs(int status) {
  if (WIFSIGNALED(status)) {
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    std::signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  std::_Exit(WIFEXITED(status) ? WEXITSTATUS(status) : kSetupFailed);
}

}  // namespace

void RunIsolated(const Request& request) {
  const bool in_user_namespace = EnterNamespaces(request);
  BuildRoot(request, in_user_namespace);
  int go[2];
  int result[2];
  if (pipe(go) != 0 || pipe(result) != 0) Fail("creating a pipe", errno);
  const pid_t init = fork();
  if (init < 0) Fail("forking", errno);
  if (init == 0) {
    close(go[1]);
    close(result[0]);
    Init(request, in_user_namespace, go[0], result[1]);
  }
  close(go[0]);
  close(result[1]);
  ChangeUser(request);
  DieWithParent(request.parent);
  if (request.status_fd >= 0) {
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, init, 0));
    if (pidfd < 0) Fail("watching init", errno);
    SendPidfd(request.status_fd, pidfd);
    close(pidfd);
  }
  (void)!write(go[1], "g", 1);
  close(go[1]);
  CloseAllBut({result[0]});
  int status = 0;
  const bool told = read(result[0], &status, sizeof status) == sizeof status;
  int init_status = 0;
  while (waitpid(init, &init_status, 0) < 0 && errno == EINTR) {
  }
  EndAs(told ? status : init_status);
}

}  // namespace kcache::launch
