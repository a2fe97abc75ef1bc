// One thread that waits for many file descriptors: listening sockets, pidfds, pipes, signals.
//
// Threads: every method from any thread; handlers run on the loop's thread, one at a time. A handler
// that has work for the core hands it to the executor. When Remove returns, the handler neither runs
// nor will run again, unless Remove was called by a handler. The loop never closes what it watches:
// remove first, then close.

#ifndef KCACHE_DAEMON_OPS_EPOLL_LOOP_H_
#define KCACHE_DAEMON_OPS_EPOLL_LOOP_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "contract/mutex.h"
#include "daemon/core/dependencies.h"
#include "daemon/ops/unique_fd.h"

namespace kcache::ops {

class EpollLoop {
 public:
  using Handler = core::Function<void(uint32_t events)>;
  using WatchId = uint64_t;  // 0: none

  static absl::StatusOr<std::unique_ptr<EpollLoop>> Create(const std::string& thread_name);
  ~EpollLoop();

  // Level-triggered; EPOLLERR and EPOLLHUP always count as asked for.
  absl::StatusOr<WatchId> Add(int fd, uint32_t events, Handler handler);
  void Remove(WatchId watch);
  // Runs the task on the loop's thread.
  void Run(core::Function<void()> task);
  // Ends the thread; watches are dropped. Not from a handler.
  void Stop();

 private:
  struct Watch {
    int fd = -1;
    Handler handler;
  };

  EpollLoop(UniqueFd epoll, UniqueFd wake);
  void Loop();

  const UniqueFd epoll_;
  const UniqueFd wake_;  // eventfd
  Mutex mutex_;
  CondVar handled_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  WatchId next_ ABSL_GUARDED_BY(mutex_) = 1;
  WatchId running_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<WatchId, std::shared_ptr<Watch>> watches_ ABSL_GUARDED_BY(mutex_);
  std::deque<core::Function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_EPOLL_LOOP_H_
