// How backend processes are kept apart: which user, which limits, which private directory, which
// namespaces and system calls. One place decides, so that probes, compile workers and device hosts agree.
//
//   process                   file system                                   system calls
//   probe                     as it is, read-only, without kcached's own    device
//   compile, no device node   minimal                                       compile, no exec if it can
//   compile, device nodes     as it is, read-only, without what is private  compile, no exec if it can
//   host of a CPU device      minimal                                       device
//   host of another device    as it is, read-only, without what is private  device
//
// All in mount, pid, network, IPC and UTS namespaces, where the system lets us, and each in a control
// group of its own (control_groups.h); compiles with the limits of a compile.
// Each can write its private directory only; a host also its driver's cache (driver_cache.h).
//
// Threads: constant after start-up; any thread.

#ifndef KCACHE_DAEMON_WORKERS_ISOLATION_H_
#define KCACHE_DAEMON_WORKERS_ISOLATION_H_

#include <optional>
#include <string>
#include <vector>

#include "daemon/ops/config.h"
#include "daemon/workers/backend_programs.h"
#include "daemon/workers/control_groups.h"
#include "daemon/workers/launch_spec.h"
#include "kcache/v1/admin.pb.h"

namespace kcache::workers {

class Isolation {
 public:
  // Both outlive this object; without `groups` there are no control groups.
  explicit Isolation(const ops::Config* config, ControlGroups* groups = nullptr);

  // Tries what works here, with `launcher` and a directory below `work_directory`. Fails only where
  // isolation.sandbox = "required" cannot be kept. Blocks; before the first process is started.
  absl::Status ChooseSandbox(const std::string& launcher, const std::string& work_directory);

  // Whether processes can run as other users (CAP_SETUID and CAP_SETGID).
  bool may_change_user() const { return may_change_user_; }
  // For people: what is in force.
  std::string Describe() const;
  void FillState(v1::IsolationState* state) const;

  // Sets user, limits and environment. `directory` is the process's private one.
  void ForProbe(const BackendProgram& program, const std::string& directory,
                LaunchSpec* spec) const;
  void ForCompile(const BackendProgram& program, const std::string& directory,
                  LaunchSpec* spec) const;
  // `driver_cache`: what the device's kDriverCache stands for (driver_cache.h), if there is one.
  void ForHost(const BackendProgram& program, const std::string& directory, LaunchUser user,
               const v1::DeviceInfo& device, const std::optional<std::string>& driver_cache,
               LaunchSpec* spec) const;

  // Who owns the private directory and the sockets of such a process; none: kcached itself.
  std::optional<LaunchUser> compile_user() const;
  std::optional<LaunchUser> host_user(uid_t uid, gid_t gid) const;

  bool namespaces() const { return namespaces_; }
  // Whether the kernel counts each compile's processes by themselves.
  bool counts_apart() const { return namespaces_ && why_not_apart_.empty(); }

 private:
  void TryGroup(const std::string& launcher);
  void Confine(Sandbox::Root root, Sandbox::Filter filter, const BackendProgram& program,
               LaunchSpec* spec) const;

  const ops::Config* const config_;
  ControlGroups* const groups_;
  bool may_change_user_ = false;
  std::optional<LaunchUser> compile_user_;
  bool compile_user_is_its_own_ = false;
  bool filter_ = false;
  bool namespaces_ = false;
  std::string why_no_namespaces_;
  std::string why_not_apart_;
};

// Whether this process has CAP_SETUID and CAP_SETGID in effect.
bool MayChangeUser();

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_ISOLATION_H_
