// Control groups (cgroup v2) of the backend processes: one for each compile worker, probe and device
// host, below one that is this daemon's.
//
//   <kcached's own>/kcached-NAMESPACE-PID-START/   ◄── what a daemon that is gone left is ended and
//     ├── 1-compile-worker/   memory.max, pids.max       removed by the next one
//     └── 2-device-host/
//
// A group ends together, whatever its processes did to hide: cgroup.kill takes no pid that could be
// somebody else's by now. Its limits are the kernel's own, so nothing grows between two looks.
//
// What it takes: a cgroup v2 directory that this process may make directories in (the shipped unit says
// Delegate=yes; root has it without). For limits, also the controllers memory and pids, and that no
// other process is in kcached's own group: the kernel gives controllers only to groups below a group
// without processes, so kcached moves itself into one called "main" first.
//
// Threads: Open and EndAll one at a time; Make, and a group's methods, from any.

#ifndef KCACHE_DAEMON_WORKERS_CONTROL_GROUPS_H_
#define KCACHE_DAEMON_WORKERS_CONTROL_GROUPS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/ops/unique_fd.h"

namespace kcache::workers {

struct GroupLimits {
  uint64_t memory = 0;     // bytes; 0: none
  uint64_t processes = 0;  // tasks, threads included; 0: none
};

// How directories are made and removed; tests stand in for the kernel, which fills them.
struct GroupDirectories {
  std::function<int(const std::string&)> make;    // 0, or an errno value
  std::function<int(const std::string&)> remove;  // 0, or an errno value
};
GroupDirectories KernelsDirectories();

class ControlGroup {
 public:
  // Removes it; it should be empty by then.
  ~ControlGroup();

  // A process that writes "0" to it joins (kcache-launch --group-fd).
  int procs_fd() const { return procs_.get(); }
  // SIGKILL for every process in it.
  void Kill() const;
  bool Populated() const;
  // Has EPOLLPRI when Populated may have changed since it was last asked.
  int events_fd() const { return events_.get(); }
  // Whether the kernel has ended something in it because of the limit on memory.
  bool MemoryLimitHit() const;

 private:
  friend class ControlGroups;
  ControlGroup() = default;

  std::string path_;
  const GroupDirectories* directories_ = nullptr;
  ops::UniqueFd procs_, kill_, events_;
};

class ControlGroups {
 public:
  ~ControlGroups() { EndAll(); }
  // In this process's own group, or nowhere: then in_force() is false and why_not() says why.
  static std::unique_ptr<ControlGroups> Open();
  // Nowhere.
  static std::unique_ptr<ControlGroups> None(std::string why);
  // In the directory of a group that this process is in.
  static std::unique_ptr<ControlGroups> OpenAt(const std::string& own,
                                               GroupDirectories directories);

  bool in_force() const { return why_not_.empty(); }
  const std::string& why_not() const { return why_not_; }
  // Whether limits hold; else why not ("no memory controller in …").
  bool limits() const { return in_force() && why_no_limits_.empty(); }
  const std::string& why_no_limits() const { return why_no_limits_; }

  // A new group; its name begins with `label`. Only when in force.
  absl::StatusOr<std::unique_ptr<ControlGroup>> Make(const std::string& label,
                                                     const GroupLimits& limits);
  // Gives up: kcache-launch cannot join a group here.
  void TurnOff(std::string why);
  // Ends every process in all groups and removes them, as far as they go within a moment. Groups that
  // are still held are of no use afterwards.
  void EndAll();

 private:
  ControlGroups() = default;
  void EnableControllers(const std::string& own);

  GroupDirectories directories_;
  std::string base_;
  std::string why_not_;
  std::string why_no_limits_;
  bool memory_ = false, processes_ = false;  // which controllers there are
  std::atomic<uint64_t> next_{1};
};

// Where the group that /proc/<pid>/cgroup (`groups`) names is mounted, from /proc/<pid>/mountinfo
// (`mounts`). NOT_FOUND without a cgroup v2 mount that shows it.
absl::StatusOr<std::string> OwnGroupDirectory(const std::string& groups, const std::string& mounts);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_CONTROL_GROUPS_H_
