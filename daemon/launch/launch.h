// The steps of kcache-launch. Every failure ends the process with a message on stderr: a backend that
// would run with more power than asked for must not run.
//
// Threads: this program has one.

#ifndef KCACHE_DAEMON_LAUNCH_LAUNCH_H_
#define KCACHE_DAEMON_LAUNCH_LAUNCH_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace kcache::launch {

constexpr int kSetupFailed = 126;
constexpr int kExecFailed = 127;

enum class Root {
  kShared,   // no namespaces
  kMinimal,
  kHidden,
};

enum class Filter { kNone, kDevice, kCompile };

struct Request {
  pid_t parent = 0;
  bool change_user = false;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::vector<std::pair<int, uint64_t>> limits;  // RLIMIT_*, value
  int nice = 0;
  std::string directory;
  Root root = Root::kShared;
  std::vector<std::string> show;
  std::vector<std::string> hide;
  std::vector<std::string> write;  // directories, besides its own
  std::vector<std::string> devices;
  int group_fd = -1;
  int status_fd = -1;
  std::vector<int> keep;  // descriptors of the command, besides 0, 1 and 2
  Filter filter = Filter::kNone;
  bool no_exec = false;
  bool count_apart = false;
  std::vector<char*> command;  // null-terminated
};

// Prints "kcache-launch: <message>: <errno text>" and exits.
[[noreturn]] void Fail(const std::string& message, int error_number = 0);

Request ParseArguments(int argc, char** argv);

// Moves this process, and so all that it starts, into the control group whose cgroup.procs this is.
void JoinGroup(int procs_fd);
// Closes every descriptor from 3 on but these; negative ones do not count.
void CloseAllBut(std::vector<int> keep);
void ResetSignals();
void SetPriority(int nice_by);
void ChangeUser(const Request& request);
// After the change of user, which clears the parent-death signal.
void DieWithParent(pid_t parent);

// New namespaces for this process and, for pids, its children (namespaces.cc). Whether that took a
// user namespace.
bool EnterNamespaces(const Request& request);
// Has RLIMIT_NPROC count the processes of this command alone, in a user namespace of its own. For the
// process that becomes the command, as its user, with its /proc; clears the parent-death signal.
void CountProcessesApart();
// The file system that the request asks for (root.cc). Then, in the first process of the pid
// namespace, its own /proc.
void BuildRoot(const Request& request, bool in_user_namespace);
void MountProc();

// Runs the command in namespaces and waits for it; ends as the command ended (isolated.cc).
[[noreturn]] void RunIsolated(const Request& request);

// The last steps: limits, no new privileges, no capabilities, the filter, exec (become.cc).
[[noreturn]] void Become(const Request& request);

// Loads the seccomp filter (filter.cc). `exec_fd`: the only descriptor that may be executed; -1: any
// program may.
void LoadFilter(Filter filter, int exec_fd);

}  // namespace kcache::launch

#endif  // KCACHE_DAEMON_LAUNCH_LAUNCH_H_
