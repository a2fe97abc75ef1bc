// Starts and watches every process of the daemon.
//
//   Start ──► spawner thread: posix_spawn(kcache-launch) ──► executor: `started`
//                                     │
//             loop thread: stderr, stdout, pidfd, memory ──► executor: `exited`, exactly once
//
// All processes are children of the one spawner thread, which ends only with the daemon: the
// parent-death signal that kcache-launch arms fires when the *thread* that spawned exits. Each process
// leads a session of its own; when it has exited, what is left of its process group is killed. One in a
// pid namespace has exited when the kernel reports the end of that namespace's first process, too: then
// nothing of it is left, however it hid. The same goes for a control group: the exit is reported when it
// is empty.
//
// Threads: Start, Child::Kill and RunDetached from any thread; callbacks on the executor. `started`
// comes before `exited`; after a failed start there is no `exited`.
// Ownership: a Child lives until its exit was reported and its last user let go. It is not ended by
// being let go: whoever started it kills it.

#ifndef KCACHE_DAEMON_WORKERS_SUPERVISOR_H_
#define KCACHE_DAEMON_WORKERS_SUPERVISOR_H_

#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "contract/mutex.h"
#include "daemon/core/dependencies.h"
#include "daemon/ops/epoll_loop.h"
#include "daemon/ops/unique_fd.h"
#include "daemon/workers/control_groups.h"
#include "daemon/workers/exit_status.h"
#include "daemon/workers/launch_spec.h"

namespace kcache::workers {

class Supervisor;

class Child {
 public:
  pid_t pid() const { return pid_; }
  const std::string& label() const { return label_; }
  // SIGKILL for the process, its process group and its control group; nothing when it has exited. The first reason counts.
  void Kill(std::string_view why) { End(ExitStatus::EndedFor::kRequest, why); }

 private:
  friend class Supervisor;
  using Exited = core::Function<void(const ExitStatus&)>;

  void End(ExitStatus::EndedFor cause, std::string_view why);

  pid_t pid_ = 0;
  std::string label_;
  ops::UniqueFd pidfd_;
  // The loop thread's.
  ops::UniqueFd stderr_;
  ops::UniqueFd stdout_;
  ops::UniqueFd status_;  // kcache-launch sends `namespace_` on it
  ops::UniqueFd namespace_;  // pidfd of the pid namespace's first process
  ops::EpollLoop::WatchId pid_watch_ = 0;
  ops::EpollLoop::WatchId stderr_watch_ = 0;
  ops::EpollLoop::WatchId stdout_watch_ = 0;
  ops::EpollLoop::WatchId status_watch_ = 0;
  ops::EpollLoop::WatchId namespace_watch_ = 0;
  ops::EpollLoop::WatchId group_watch_ = 0;
  ExitStatus status_of_exit_;
  std::string last_words_;
  uint64_t stderr_bytes_ = 0;
  std::string output_;
  uint64_t capture_output_ = 0;
  uint64_t memory_limit_ = 0;
  uint32_t process_limit_ = 0;
  GroupLimits group_limits_;
  Exited exited_;

  // Changed only before there are other users, and then by the loop thread with the lock.
  std::unique_ptr<ControlGroup> group_;

  Mutex mutex_;
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;  // reaped: its pid may belong to somebody else
  ExitStatus::EndedFor cause_ ABSL_GUARDED_BY(mutex_) = ExitStatus::EndedFor::kNothing;
  std::string why_ ABSL_GUARDED_BY(mutex_);
};

using ChildPtr = std::shared_ptr<Child>;

class Supervisor {
 public:
  // `launcher` is the path of kcache-launch. `executor` and `groups` outlive this object; nullptr: no
  // control groups.
  static absl::StatusOr<std::unique_ptr<Supervisor>> Create(std::string launcher,
                                                            core::Executor* executor,
                                                            ControlGroups* groups = nullptr);
  // Kills what still runs.
  ~Supervisor();

  void Start(LaunchSpec spec, core::Function<void(absl::StatusOr<ChildPtr>)> started,
             core::Function<void(const ExitStatus&)> exited);

  // Runs something that may block and ends in a spawn, on the spawner's thread.
  void RunDetached(core::Function<void()> task);
  // Runs what nobody waits for and may take seconds (removing a directory), on a thread of its own:
  // behind it no process is started late.
  void RunInBackground(core::Function<void()> task);

 private:
  Supervisor(std::string launcher, core::Executor* executor, ControlGroups* groups);

  void TaskLoop(std::deque<core::Function<void()>>* tasks);
  void Spawn(LaunchSpec spec, core::Function<void(absl::StatusOr<ChildPtr>)> started,
             core::Function<void(const ExitStatus&)> exited);
  void Watch(const ChildPtr& child);
  // Loop thread.
  void OnReadable(const ChildPtr& child, bool is_stderr);
  void OnStatus(const ChildPtr& child);
  void OnExit(const ChildPtr& child);
  void OnNamespaceGone(const ChildPtr& child);
  void AwaitGroup(const ChildPtr& child);
  void Report(const ChildPtr& child);
  void OnTick();

  const std::string launcher_;
  core::Executor* const executor_;
  ControlGroups* const groups_;  // nullptr: none are in force
  std::unique_ptr<ops::EpollLoop> loop_;
  ops::UniqueFd tick_timer_;  // runs while somebody has a limit that is looked after here
  ops::EpollLoop::WatchId tick_watch_ = 0;
  bool ticking_ = false;  // the loop's thread only
  std::unordered_set<ChildPtr> watched_;  // the loop thread's

  Mutex mutex_;
  CondVar wake_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<core::Function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  std::deque<core::Function<void()>> background_tasks_ ABSL_GUARDED_BY(mutex_);
  std::thread spawner_;
  std::thread background_;
};

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_SUPERVISOR_H_
