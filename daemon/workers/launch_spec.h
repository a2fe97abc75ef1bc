// What one backend process is started with. kcache-launch (daemon/launch) turns it into reality.
//
// Threads: a value.

#ifndef KCACHE_DAEMON_WORKERS_LAUNCH_SPEC_H_
#define KCACHE_DAEMON_WORKERS_LAUNCH_SPEC_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "daemon/ops/unique_fd.h"
#include "daemon/workers/control_groups.h"

namespace kcache::workers {

struct LaunchUser {
  uid_t uid = 0;
  gid_t gid = 0;
  bool own_groups = false;  // with the user's supplementary groups: device nodes often want one
};

// Namespaces, file system and system calls; kcache-launch's words for them.
struct Sandbox {
  enum class Root { kShared, kMinimal, kHidden };
  enum class Filter { kNone, kDevice, kCompile };
  Root root = Root::kShared;
  Filter filter = Filter::kNone;
  bool no_exec = false;
  bool count_apart = false;  // a limit of processes is for this command alone; needs namespaces
  std::vector<std::string> show;
  std::vector<std::string> hide;
  std::vector<std::string> write;  // directories, besides its own
  std::vector<std::string> devices;
};

struct LaunchSpec {
  std::string label;  // for the log: "probe OpenCL"
  std::string program;
  std::vector<std::string> arguments;
  std::vector<std::string> environment;  // NAME=value, complete
  std::string directory;
  std::optional<LaunchUser> user;  // absent: kcached's own
  std::vector<std::pair<std::string, uint64_t>> limits;  // kcache-launch --limit
  int nice = 0;
  Sandbox sandbox;
  // (descriptor in the child, ours); 0, 1 and 2 are the supervisor's.
  std::vector<std::pair<int, ops::UniqueFd>> descriptors;
  uint64_t capture_output = 0;  // bytes of stdout to keep; beyond, the process is ended
  uint64_t memory_limit = 0;    // resident bytes of the process and its descendants; 0: none
  uint32_t process_limit = 0;   // of them, kcache-launch's own included; 0: none
  GroupLimits group;            // of its control group, where there are control groups
};

// The command line of kcache-launch. `groups` are the numbers to give the user; `status_fd` is the
// child's descriptor for --status-fd, when there are namespaces; `group_fd` the one for --group-fd, when
// there are control groups; else -1.
std::vector<std::string> LauncherArguments(const LaunchSpec& spec, const std::string& launcher,
                                           pid_t parent, const std::vector<gid_t>& groups,
                                           int status_fd, int group_fd);

// The supplementary groups of `user`, from the user database; empty for an unknown user. May block.
std::vector<gid_t> GroupsOf(const LaunchUser& user);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_LAUNCH_SPEC_H_
