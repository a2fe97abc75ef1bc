// How backend processes are kept apart: which user, which limits, which private directory. One place
// decides, so that probes, compile workers and device hosts agree.
//
// Threads: constant after start-up; any thread.

#ifndef KCACHE_DAEMON_WORKERS_ISOLATION_H_
#define KCACHE_DAEMON_WORKERS_ISOLATION_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/ops/config.h"
#include "daemon/workers/backend_programs.h"
#include "daemon/workers/launch_spec.h"

namespace kcache::workers {

class Isolation {
 public:
  // `config` outlives this object.
  explicit Isolation(const ops::Config* config);

  // Whether processes can run as other users (CAP_SETUID and CAP_SETGID).
  bool may_change_user() const { return may_change_user_; }
  // For people: what is in force.
  std::string Describe() const;

  // Sets user, limits and environment. `directory` is the process's private one.
  void ForProbe(const BackendProgram& program, const std::string& directory,
                LaunchSpec* spec) const;
  void ForCompile(const BackendProgram& program, const std::string& directory,
                  LaunchSpec* spec) const;
  void ForHost(const BackendProgram& program, const std::string& directory, LaunchUser user,
               const std::vector<std::string>& device_environment, LaunchSpec* spec) const;

  // Who owns the private directory and the sockets of such a process; none: kcached itself.
  std::optional<LaunchUser> compile_user() const;
  std::optional<LaunchUser> host_user(uid_t uid, gid_t gid) const;

 private:
  const ops::Config* const config_;
  bool may_change_user_ = false;
  std::optional<LaunchUser> compile_user_;
};

// Whether this process has CAP_SETUID and CAP_SETGID in effect.
bool MayChangeUser();

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_ISOLATION_H_
