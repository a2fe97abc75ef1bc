// Tells that files have changed: drivers, runtime libraries and what their loaders read.
//
// A path is watched where it is, where a symbolic link leads, and before it is there. A directory is
// watched with what lies in it. Whatever happens to one of them (made, written, moved, removed) is told
// once it has settled for a moment: a package's files come one after the other.
//
// Threads: Watch on the executor; `changed` runs there, too.
// Ownership: `loop` and `executor` outlive this object, which is destroyed when the executor has stopped.

#ifndef KCACHE_DAEMON_OPS_FILE_WATCH_H_
#define KCACHE_DAEMON_OPS_FILE_WATCH_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/mutex.h"
#include "daemon/core/dependencies.h"
#include "daemon/ops/epoll_loop.h"
#include "daemon/ops/unique_fd.h"

namespace kcache::ops {

class FileWatch {
 public:
  // `changed` hears the path of the first change of a burst, `settle` after it.
  static absl::StatusOr<std::unique_ptr<FileWatch>> Create(
      EpollLoop* loop, core::Executor* executor, absl::Duration settle,
      core::Function<void(const std::string& path)> changed);
  ~FileWatch();

  // From now on these, and no others. Absolute paths; what cannot be watched is left out.
  void Watch(const std::vector<std::string>& paths);

 private:
  // What counts in a directory.
  struct Names {
    bool all = false;
    std::set<std::string> some;
  };
  struct Directory {
    std::string path;
    Names names;
  };

  FileWatch(UniqueFd fd, EpollLoop* loop, core::Executor* executor, absl::Duration settle,
            core::Function<void(const std::string&)> changed);
  void OnReadable();
  void OnChange(const std::string& path);

  const UniqueFd inotify_;
  EpollLoop* const loop_;
  core::Executor* const executor_;
  const absl::Duration settle_;
  core::Function<void(const std::string&)> changed_;
  EpollLoop::WatchId watch_ = 0;
  bool settling_ = false;

  Mutex mutex_;
  std::map<int, Directory> directories_ ABSL_GUARDED_BY(mutex_);  // by watch descriptor
};

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_FILE_WATCH_H_
