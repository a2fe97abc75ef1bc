// The directories that a running daemon owns, and the proof that no other daemon uses them.
//
//   <runtime_dir>         0755  sockets, kcached.lock
//   <runtime_dir>/exec    0711  execution sockets of device hosts
//   <runtime_dir>/work    0711  private directories of backend processes
//   <state_dir>           0755  what survives a restart
//
// The lock is the kernel's and goes with its holder, however that dies. What an earlier daemon left in
// exec and work is removed once the lock is ours.
//
// Threads: at start-up and at the stop. Ownership: the lock is held as long as the object lives.

#ifndef KCACHE_DAEMON_OPS_RUNTIME_DIRECTORY_H_
#define KCACHE_DAEMON_OPS_RUNTIME_DIRECTORY_H_

#include <string>

#include "absl/status/statusor.h"
#include "daemon/ops/config.h"
#include "daemon/ops/unique_fd.h"

namespace kcache::ops {

class RuntimeDirectory {
 public:
  // ALREADY_EXISTS: "another kcached (pid N) serves <runtime_dir>".
  static absl::StatusOr<RuntimeDirectory> Open(const Config& config);

  const std::string& execution() const { return execution_; }
  const std::string& work() const { return work_; }

  // At the stop: nothing of any process stays in exec and work.
  void Empty() const;

 private:
  RuntimeDirectory(UniqueFd lock, const std::string& runtime_dir);

  UniqueFd lock_;
  std::string execution_;
  std::string work_;
};

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_RUNTIME_DIRECTORY_H_
