// A kcached of the test's own: in a temporary directory, with its own sockets, and gone at the end.
//
// Start waits until the client socket accepts a connection, or the daemon has died. Stop asks it to
// end (SIGTERM), Kill does not ask (SIGKILL); both then make sure that no process is left of it:
// device hosts, compile workers and what they started. For that, a small keeper process stands
// between the test and the daemon: orphans of the daemon come to it, and it ends when none is left.
//
// Threads: one at a time. Ownership: the destructor stops what still runs and removes the
// directory.

#ifndef KCACHE_TESTS_SUPPORT_PRIVATE_DAEMON_H_
#define KCACHE_TESTS_SUPPORT_PRIVATE_DAEMON_H_

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace kcache::testing {

struct PrivateDaemonOptions {
  // Empty: daemon/kcached below the build directory ($KCACHE_BINARY_DIR).
  std::string program;
  // Where kcache-backend-* programs are looked for. Empty: every folder of the build directory's
  // backends/ that has one.
  std::vector<std::string> backend_directories;
  // As on the command line: "--limits.grace=100ms".
  std::vector<std::string> flags;
  // Beside PATH, HOME and the like. What backend programs are to see needs the flag
  // --backends.environment too.
  std::map<std::string, std::string> environment;
  std::chrono::milliseconds start_timeout{std::chrono::seconds(60)};
  std::chrono::milliseconds stop_timeout{std::chrono::seconds(60)};
};

class PrivateDaemon {
 public:
  // Fails with the end of the daemon's log when it does not come up.
  static absl::StatusOr<std::unique_ptr<PrivateDaemon>> Start(PrivateDaemonOptions options);
  ~PrivateDaemon();
  PrivateDaemon(const PrivateDaemon&) = delete;
  PrivateDaemon& operator=(const PrivateDaemon&) = delete;

  pid_t pid() const { return pid_; }
  const std::string& directory() const { return directory_; }
  std::string socket() const { return directory_ + "/run/kcached.sock"; }
  std::string admin_socket() const { return directory_ + "/run/admin.sock"; }

  // What it has written to stdout and stderr.
  std::string Log() const;

  // Ends it. Fails when it does not end in time, ends with anything but 0, or leaves a process.
  absl::Status Stop();
  // The same without asking and without minding how it ended.
  absl::Status Kill();
  // After Stop or Kill: another process with the same directory, sockets and flags.
  absl::Status Restart();

  // The daemon itself and everything that it or its orphans started, as "pid name".
  std::vector<std::string> Processes() const;

 private:
  explicit PrivateDaemon(PrivateDaemonOptions options) : options_(std::move(options)) {}

  absl::Status MakeDirectory();
  absl::Status Launch();
  absl::Status AwaitSocket();
  absl::StatusOr<int> AwaitExit();
  absl::Status AwaitNothingLeft();
  std::string LogTail() const;

  const PrivateDaemonOptions options_;
  std::string directory_;
  pid_t pid_ = -1;         // of kcached; -1: not running
  pid_t keeper_ = -1;      // of the keeper; -1: gone
  int keeper_pidfd_ = -1;  // readable when the keeper has ended
  int reports_ = -1;       // from the keeper: kcached's pid, later its wait status
};

}  // namespace kcache::testing

#endif  // KCACHE_TESTS_SUPPORT_PRIVATE_DAEMON_H_
