// A directory for one process, removed with all that is in it.
//
// Threads: Make and Remove may block for the disk: not on the executor.

#ifndef KCACHE_DAEMON_WORKERS_PRIVATE_DIRECTORY_H_
#define KCACHE_DAEMON_WORKERS_PRIVATE_DIRECTORY_H_

#include <sys/types.h>

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/workers/launch_spec.h"

namespace kcache::workers {

// Creates `parent`/`name`-XXXXXX with mode 0700, owned by `user` when given.
absl::StatusOr<std::string> MakePrivateDirectory(const std::string& parent,
                                                 const std::string& name,
                                                 const std::optional<LaunchUser>& user);

// Never follows a symbolic link out of it. Failures are not reported: the runtime directory is
// emptied at the next start anyway.
void RemoveTree(const std::string& path);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_PRIVATE_DIRECTORY_H_
