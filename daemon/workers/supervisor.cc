#include "daemon/workers/supervisor.h"

#include <fcntl.h>
#include <pthread.h>
#include <poll.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"
#include "daemon/ops/system_error.h"
#include "daemon/workers/tree_use.h"

namespace kcache::workers {
namespace {

using ops::SystemError;
using ops::UniqueFd;

constexpr size_t kLastWordsBytes = 8 << 10;
constexpr uint64_t kMaxStderrBytes = 64 << 20;
constexpr long kTickNanoseconds = 100'000'000;
// Descriptors of a child end below this; ours are moved above, so that arranging them cannot
// overwrite one that is still needed.
constexpr int kFirstOwnDescriptor = 64;

constexpr int kStatusFd = kFirstOwnDescriptor - 1;  // in the child
constexpr int kGroupFd = kFirstOwnDescriptor - 2;
constexpr int kPidfdType = 3;  // P_PIDFD

int PidfdOpen(pid_t pid) { return static_cast<int>(syscall(SYS_pidfd_open, pid, 0)); }

struct Pipe {
  UniqueFd read;
  UniqueFd write;
};

absl::StatusOr<Pipe> MakePipe() {
  int fds[2];
  if (pipe2(fds, O_CLOEXEC) != 0) return SystemError(errno, "creating a pipe");
  Pipe pipe{UniqueFd(fds[0]), UniqueFd(fds[1])};
  fcntl(pipe.read.get(), F_SETFL, O_NONBLOCK);
  return pipe;
}

absl::StatusOr<UniqueFd> MoveUp(int fd) {
  UniqueFd moved(fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwnDescriptor));
  if (!moved.valid()) return SystemError(errno, "duplicating a file descriptor");
  return moved;
}

// The descriptor that came with a byte; invalid: none did.
UniqueFd ReceiveFd(int socket) {
  char byte = 0;
  iovec data{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != 1) return {};
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS ||
      header->cmsg_len != CMSG_LEN(sizeof(int))) {
    return {};
  }
  int fd = -1;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return UniqueFd(fd);
}

bool HasExited(int pidfd) {
  pollfd state{pidfd, POLLIN, 0};
  return poll(&state, 1, 0) == 1;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  pointers.reserve(texts.size() + 1);
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

}  // namespace

// ---- child --------------------------------------------------------------------------------------

void Child::End(ExitStatus::EndedFor cause, std::string_view why) {
  MutexLock lock(&mutex_);
  if (gone_) return;
  if (cause_ == ExitStatus::EndedFor::kNothing) {
    cause_ = cause;
    why_ = std::string(why);
  }
  // The control group first: by what it is, not by a number.
  if (group_ != nullptr) group_->Kill();
  // Not reaped, so both numbers are still this process's.
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
}

// ---- supervisor ---------------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Supervisor>> Supervisor::Create(std::string launcher,
                                                               core::Executor* executor,
                                                               ControlGroups* groups) {
  if (access(launcher.c_str(), X_OK) != 0) {
    return SystemError(errno, "looking for the launcher " + launcher);
  }
  auto loop = ops::EpollLoop::Create("children");
  if (!loop.ok()) return loop.status();
  UniqueFd timer(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!timer.valid()) return SystemError(errno, "creating a timer");
  // The first process of a pid namespace whose kcache-launch was killed becomes ours to reap.
  prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  std::unique_ptr<Supervisor> supervisor(new Supervisor(std::move(launcher), executor, groups));
  supervisor->loop_ = *std::move(loop);
  supervisor->tick_timer_ = std::move(timer);
  Supervisor* self = supervisor.get();
  auto watch = self->loop_->Add(self->tick_timer_.get(), EPOLLIN, [self](uint32_t) {
    uint64_t expirations = 0;
    if (read(self->tick_timer_.get(), &expirations, sizeof expirations) > 0) {
      self->OnTick();
    }
  });
  if (!watch.ok()) return watch.status();
  self->tick_watch_ = *watch;
  return supervisor;
}

Supervisor::Supervisor(std::string launcher, core::Executor* executor, ControlGroups* groups)
    : launcher_(std::move(launcher)),
      executor_(executor),
      groups_(groups != nullptr && groups->in_force() ? groups : nullptr),
      spawner_([this] { TaskLoop(&tasks_); }),
      background_([this] { TaskLoop(&background_tasks_); }) {
  pthread_setname_np(spawner_.native_handle(), "spawner");
  pthread_setname_np(background_.native_handle(), "background");
}

Supervisor::~Supervisor() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    wake_.NotifyAll();
  }
  spawner_.join();
  background_.join();
  loop_->Stop();
  for (const ChildPtr& child : watched_) {
    child->Kill("kcached is ending");
    siginfo_t info{};
    waitid(static_cast<idtype_t>(kPidfdType), static_cast<id_t>(child->pidfd_.get()), &info,
           WEXITED);
  }
}

void Supervisor::RunDetached(core::Function<void()> task) {
  MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  wake_.NotifyAll();
}

void Supervisor::RunInBackground(core::Function<void()> task) {
  MutexLock lock(&mutex_);
  background_tasks_.push_back(std::move(task));
  wake_.NotifyAll();
}

void Supervisor::TaskLoop(std::deque<core::Function<void()>>* tasks) {
  for (;;) {
    core::Function<void()> task;
    {
      MutexLock lock(&mutex_);
      while (tasks->empty() && !stopped_) wake_.Wait(&mutex_);
      if (tasks->empty()) return;
      task = std::move(tasks->front());
      tasks->pop_front();
    }
    task();
  }
}

void Supervisor::Start(LaunchSpec spec, core::Function<void(absl::StatusOr<ChildPtr>)> started,
                       core::Function<void(const ExitStatus&)> exited) {
  RunDetached([this, spec = std::move(spec), started = std::move(started),
               exited = std::move(exited)]() mutable {
    Spawn(std::move(spec), std::move(started), std::move(exited));
  });
}

void Supervisor::Spawn(LaunchSpec spec, core::Function<void(absl::StatusOr<ChildPtr>)> started,
                       core::Function<void(const ExitStatus&)> exited) {
  const auto fail = [&](const absl::Status& why) {
    executor_->Run([started = std::move(started), why]() mutable { started(why); });
  };
  auto errors = MakePipe();
  if (!errors.ok()) return fail(errors.status());
  auto output = MakePipe();
  if (!output.ok()) return fail(output.status());

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID);
  std::vector<UniqueFd> moved;
  absl::Status arranged;
  const auto give = [&](int child_fd, int fd) {
    auto high = MoveUp(fd);
    if (!high.ok()) {
      arranged.Update(high.status());
      return;
    }
    posix_spawn_file_actions_adddup2(&actions, high->get(), child_fd);
    moved.push_back(*std::move(high));
  };
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  if (spec.capture_output > 0) {
    give(STDOUT_FILENO, output->write.get());
  } else {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  give(STDERR_FILENO, errors->write.get());
  for (const auto& [child_fd, fd] : spec.descriptors) give(child_fd, fd.get());
  UniqueFd status;
  if (spec.sandbox.root != Sandbox::Root::kShared) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) {
      status = UniqueFd(ends[0]);
      const UniqueFd theirs(ends[1]);
      give(kStatusFd, theirs.get());
    } else {
      arranged.Update(SystemError(errno, "creating a status socket"));
    }
  }

  std::unique_ptr<ControlGroup> group;
  if (groups_ != nullptr) {
    auto made = groups_->Make(spec.label, spec.group);
    if (made.ok()) {
      group = *std::move(made);
      give(kGroupFd, group->procs_fd());
    } else {
      arranged.Update(made.status());
    }
  }

  pid_t pid = 0;
  int error = 0;
  if (arranged.ok()) {
    const std::vector<gid_t> groups =
        spec.user && spec.user->own_groups ? GroupsOf(*spec.user) : std::vector<gid_t>();
    std::vector<std::string> arguments =
        LauncherArguments(spec, launcher_, getpid(), groups, status.valid() ? kStatusFd : -1,
                          group != nullptr ? kGroupFd : -1);
    error = posix_spawn(&pid, launcher_.c_str(), &actions, &attributes, Pointers(arguments).data(),
                        Pointers(spec.environment).data());
  }
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (!arranged.ok()) return fail(arranged);
  if (error != 0) return fail(SystemError(error, "starting " + spec.program));

  auto child = std::make_shared<Child>();
  child->pid_ = pid;
  child->label_ = spec.label;
  child->pidfd_ = UniqueFd(PidfdOpen(pid));
  child->stderr_ = std::move(errors->read);
  if (spec.capture_output > 0) child->stdout_ = std::move(output->read);
  child->status_ = std::move(status);
  child->group_ = std::move(group);
  child->capture_output_ = spec.capture_output;
  child->memory_limit_ = spec.memory_limit;
  child->process_limit_ = spec.process_limit;
  child->group_limits_ = spec.group;
  child->exited_ = std::move(exited);
  if (!child->pidfd_.valid()) {
    const int open_error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    return fail(SystemError(open_error, "watching " + spec.program));
  }
  // First this, then the watches: `started` is ahead of `exited` in the executor's order.
  executor_->Run([started = std::move(started), child]() mutable { started(child); });
  loop_->Run([this, child] { Watch(child); });
}

void Supervisor::Watch(const ChildPtr& child) {
  watched_.insert(child);
  const auto add = [this](int fd, ops::EpollLoop::Handler handler) {
    auto watch = loop_->Add(fd, EPOLLIN, std::move(handler));
    return watch.ok() ? *watch : 0;
  };
  child->stderr_watch_ =
      add(child->stderr_.get(), [this, child](uint32_t) { OnReadable(child, true); });
  if (child->stdout_.valid()) {
    child->stdout_watch_ =
        add(child->stdout_.get(), [this, child](uint32_t) { OnReadable(child, false); });
  }
  if (child->status_.valid()) {
    child->status_watch_ = add(child->status_.get(), [this, child](uint32_t) { OnStatus(child); });
  }
  // Not when it runs: who starts a child every moment would put off the next look for ever.
  if (!ticking_ && (child->memory_limit_ > 0 || child->process_limit_ > 0)) {
    ticking_ = true;
    const itimerspec every{{0, kTickNanoseconds}, {0, kTickNanoseconds}};
    timerfd_settime(tick_timer_.get(), 0, &every, nullptr);
  }
  child->pid_watch_ = add(child->pidfd_.get(), [this, child](uint32_t) { OnExit(child); });
  if (child->pid_watch_ == 0) {
    child->Kill("it could not be watched");
    OnExit(child);
  }
}

void Supervisor::OnReadable(const ChildPtr& child, bool is_stderr) {
  UniqueFd& fd = is_stderr ? child->stderr_ : child->stdout_;
  ops::EpollLoop::WatchId& watch = is_stderr ? child->stderr_watch_ : child->stdout_watch_;
  char buffer[16 << 10];
  // A few rounds at most: one talkative child must not keep the loop from the others.
  for (int round = 0; round < 4; ++round) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n < 0) {
      if (errno == EINTR) continue;
      return;  // EAGAIN: nothing more now
    }
    if (n == 0) {
      loop_->Remove(watch);
      watch = 0;
      return;
    }
    const std::string_view piece(buffer, static_cast<size_t>(n));
    if (is_stderr) {
      child->stderr_bytes_ += piece.size();
      child->last_words_ += piece;
      if (child->last_words_.size() > 2 * kLastWordsBytes) {
        child->last_words_.erase(0, child->last_words_.size() - kLastWordsBytes);
      }
      if (child->stderr_bytes_ > kMaxStderrBytes) {
        child->End(ExitStatus::EndedFor::kOutput,
                   absl::StrCat("wrote more than ", kMaxStderrBytes, " bytes to stderr"));
      }
    } else if (child->output_.size() + piece.size() <= child->capture_output_) {
      child->output_ += piece;
    } else {
      child->End(ExitStatus::EndedFor::kOutput,
                 absl::StrCat("wrote more than ", child->capture_output_, " bytes to stdout"));
    }
  }
}

void Supervisor::OnTick() {
  bool any = false;
  for (const ChildPtr& child : watched_) {
    if (child->memory_limit_ == 0 && child->process_limit_ == 0) continue;
    any = true;
    // No further than to one process too many: those of a fork bomb take the processor from who counts.
    const uint32_t limit = child->process_limit_;
    TreeUse use = UseOfTree(child->pid_, limit != 0 ? limit + 1 : kMostOfTree);
    const bool too_many = limit != 0 && use.processes > limit;
    if (!too_many && child->memory_limit_ != 0 && use.resident_bytes > child->memory_limit_ &&
        use.processes > 1) {
      // A closer look: what a fork left is there once, and counted for each.
      use.resident_bytes = std::min(use.resident_bytes, ProportionalBytesOfTree(child->pid_));
    }
    if (too_many) {
      child->End(ExitStatus::EndedFor::kProcesses,
                 absl::StrCat("started more processes than the limit of ", limit));
    } else if (child->memory_limit_ != 0 && use.resident_bytes > child->memory_limit_) {
      child->End(ExitStatus::EndedFor::kMemory,
                 absl::StrCat("used ", use.resident_bytes, " bytes of memory; the limit is ",
                              child->memory_limit_));
    }
  }
  if (any) return;
  ticking_ = false;
  const itimerspec never{};
  timerfd_settime(tick_timer_.get(), 0, &never, nullptr);
}

void Supervisor::OnStatus(const ChildPtr& child) {
  loop_->Remove(child->status_watch_);
  child->status_watch_ = 0;
  child->namespace_ = ReceiveFd(child->status_.get());
  child->status_.Reset();
}

void Supervisor::OnExit(const ChildPtr& child) {
  siginfo_t info{};
  ExitStatus& status = child->status_of_exit_;
  {
    MutexLock lock(&child->mutex_);
    if (child->gone_) return;
    // What it started and left in its group goes with it, while the number is still its own.
    if (child->group_ != nullptr) child->group_->Kill();
    kill(-child->pid_, SIGKILL);
    int result = 0;
    do {
      result = waitid(static_cast<idtype_t>(kPidfdType),
                      static_cast<id_t>(child->pidfd_.get()), &info, WEXITED);
    } while (result != 0 && errno == EINTR);
    child->gone_ = true;
    status.verified = result == 0;
    status.ended_for = child->cause_;
    status.why = child->why_;
  }
  if (info.si_code == CLD_EXITED) {
    status.code = info.si_status;
  } else {
    status.signal = info.si_status;
  }
  loop_->Remove(child->pid_watch_);
  if (child->status_watch_ != 0) OnStatus(child);
  if (child->namespace_.valid() && !HasExited(child->namespace_.get())) {
    auto watch = loop_->Add(child->namespace_.get(), EPOLLIN,
                            [this, child](uint32_t) { OnNamespaceGone(child); });
    if (watch.ok()) {
      child->namespace_watch_ = *watch;
      return;
    }
    status.verified = false;
  }
  OnNamespaceGone(child);
}

void Supervisor::OnNamespaceGone(const ChildPtr& child) {
  if (child->namespace_.valid()) {
    loop_->Remove(child->namespace_watch_);
    siginfo_t info{};
    // Ours only when its kcache-launch went first; else it was reaped there.
    waitid(static_cast<idtype_t>(kPidfdType), static_cast<id_t>(child->namespace_.get()), &info,
           WEXITED | WNOHANG);
  }
  AwaitGroup(child);
}

void Supervisor::AwaitGroup(const ChildPtr& child) {
  if (child->group_ != nullptr && child->group_->Populated()) {
    if (child->group_watch_ != 0) return;
    auto watch = loop_->Add(child->group_->events_fd(), EPOLLPRI,
                            [this, child](uint32_t) { AwaitGroup(child); });
    if (watch.ok()) {
      child->group_watch_ = *watch;
      return;
    }
    child->status_of_exit_.verified = false;
  }
  loop_->Remove(child->group_watch_);
  Report(child);
}

void Supervisor::Report(const ChildPtr& child) {
  ExitStatus& status = child->status_of_exit_;
  if (child->group_ != nullptr) {
    if (status.ended_for == ExitStatus::EndedFor::kNothing && child->group_->MemoryLimitHit()) {
      status.ended_for = ExitStatus::EndedFor::kMemory;
      status.why = absl::StrCat("used more memory than the limit of ", child->group_limits_.memory,
                                " bytes");
    }
    MutexLock lock(&child->mutex_);
    child->group_.reset();
  }
  // What is in the pipes now is all that it said.
  if (child->stderr_watch_ != 0) OnReadable(child, true);
  if (child->stdout_watch_ != 0) OnReadable(child, false);
  loop_->Remove(child->stderr_watch_);
  loop_->Remove(child->stdout_watch_);
  child->stderr_.Reset();
  child->stdout_.Reset();
  if (child->last_words_.size() > kLastWordsBytes) {
    child->last_words_.erase(0, child->last_words_.size() - kLastWordsBytes);
  }
  status.last_words = std::move(child->last_words_);
  status.output = std::move(child->output_);
  executor_->Run([exited = std::move(child->exited_), status = std::move(status)]() mutable {
    exited(status);
  });
  watched_.erase(child);
}

}  // namespace kcache::workers
