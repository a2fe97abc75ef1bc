#include "daemon/ops/epoll_loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "daemon/ops/system_error.h"

namespace kcache::ops {

absl::StatusOr<std::unique_ptr<EpollLoop>> EpollLoop::Create(const std::string& thread_name) {
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return SystemError(errno, "creating an epoll instance");
  UniqueFd wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake.valid()) return SystemError(errno, "creating an eventfd");
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = 0;
  if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, wake.get(), &event) != 0) {
    return SystemError(errno, "watching an eventfd");
  }
  std::unique_ptr<EpollLoop> loop(new EpollLoop(std::move(epoll), std::move(wake)));
  pthread_setname_np(loop->thread_.native_handle(), thread_name.substr(0, 15).c_str());
  return loop;
}

EpollLoop::EpollLoop(UniqueFd epoll, UniqueFd wake)
    : epoll_(std::move(epoll)), wake_(std::move(wake)), thread_([this] { Loop(); }) {}

EpollLoop::~EpollLoop() { Stop(); }

absl::StatusOr<EpollLoop::WatchId> EpollLoop::Add(int fd, uint32_t events, Handler handler) {
  auto watch = std::make_shared<Watch>();
  watch->fd = fd;
  watch->handler = std::move(handler);
  MutexLock lock(&mutex_);
  if (stopped_) return absl::FailedPreconditionError("the event loop has ended");
  const WatchId id = next_++;
  epoll_event event{};
  event.events = events;
  event.data.u64 = id;
  if (epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return SystemError(errno, "watching a file descriptor");
  }
  watches_.emplace(id, std::move(watch));
  return id;
}

void EpollLoop::Remove(WatchId watch) {
  std::shared_ptr<Watch> dropped;  // destroyed without the lock
  MutexLock lock(&mutex_);
  const auto found = watches_.find(watch);
  if (found != watches_.end()) {
    epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, found->second->fd, nullptr);
    dropped = std::move(found->second);
    watches_.erase(found);
  }
  if (thread_.get_id() == std::this_thread::get_id()) return;
  while (running_ == watch && watch != 0) handled_.Wait(&mutex_);
}

void EpollLoop::Run(core::Function<void()> task) {
  MutexLock lock(&mutex_);
  if (stopped_) return;
  tasks_.push_back(std::move(task));
  eventfd_write(wake_.get(), 1);
}

void EpollLoop::Stop() {
  {
    MutexLock lock(&mutex_);
    stopped_ = true;
    eventfd_write(wake_.get(), 1);
  }
  if (thread_.joinable()) thread_.join();
  std::unordered_map<WatchId, std::shared_ptr<Watch>> watches;
  std::deque<core::Function<void()>> tasks;
  MutexLock lock(&mutex_);
  watches.swap(watches_);
  tasks.swap(tasks_);
}

void EpollLoop::Loop() {
  std::array<epoll_event, 64> events;
  for (;;) {
    const int count = epoll_wait(epoll_.get(), events.data(), events.size(), -1);
    for (int i = 0; i < count; ++i) {
      const WatchId id = events[static_cast<size_t>(i)].data.u64;
      if (id == 0) {
        eventfd_t ignored = 0;
        eventfd_read(wake_.get(), &ignored);
        std::deque<core::Function<void()>> tasks;
        {
          MutexLock lock(&mutex_);
          if (stopped_) return;
          tasks.swap(tasks_);
        }
        for (auto& task : tasks) task();
        continue;
      }
      std::shared_ptr<Watch> watch;
      {
        MutexLock lock(&mutex_);
        const auto found = watches_.find(id);
        if (found == watches_.end()) continue;  // removed by an earlier handler of this round
        watch = found->second;
        running_ = id;
      }
      watch->handler(events[static_cast<size_t>(i)].events);
      watch.reset();  // a handler that removed itself dies here, not under the lock
      MutexLock lock(&mutex_);
      running_ = 0;
      handled_.NotifyAll();
    }
  }
}

}  // namespace kcache::ops
