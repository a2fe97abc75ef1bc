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

struct Request {
  pid_t parent = 0;
  bool change_user = false;
  uid_t uid = 0;
  gid_t gid = 0;
  std::vector<gid_t> groups;
  std::vector<std::pair<int, uint64_t>> limits;  // RLIMIT_*, value
  int nice = 0;
  std::string directory;
  std::vector<char*> command;  // null-terminated
};

// Prints "kcache-launch: <message>: <errno text>" and exits.
[[noreturn]] void Fail(const std::string& message, int error_number = 0);

Request ParseArguments(int argc, char** argv);

// Does what the request says and executes its command.
[[noreturn]] void Become(const Request& request);

}  // namespace kcache::launch

#endif  // KCACHE_DAEMON_LAUNCH_LAUNCH_H_
