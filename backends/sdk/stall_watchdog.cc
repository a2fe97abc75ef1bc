#include "backends/sdk/stall_watchdog.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::backend {
namespace {

// A stall is noticed at most a quarter of the limit late.
constexpr int kLooksPerLimit = 4;

}  // namespace

StallWatchdog::StallWatchdog(std::chrono::milliseconds limit, List list,
                             std::function<void(const absl::Status&)> on_stall)
    : limit_(limit), list_(std::move(list)), on_stall_(std::move(on_stall)) {
  thread_ = std::thread([this] { Run(); });
}

StallWatchdog::~StallWatchdog() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
    stopped_.NotifyAll();
  }
  thread_.join();
}

absl::Status StallWatchdog::Look(std::chrono::steady_clock::time_point now) {
  std::map<std::pair<uint64_t, uint32_t>, Seen> busy;
  for (const QueueProgress& queue : list_()) {
    if (!queue.busy) continue;
    const std::pair key(queue.session, queue.queue);
    const auto before = seen_.find(key);
    const bool moved = before == seen_.end() || before->second.completed != queue.completed;
    const Seen seen = moved ? Seen{queue.completed, now} : before->second;
    if (now - seen.since >= limit_) {
      return MakeError(v1::DEVICE_LOST, absl::StrCat("queue ", queue.queue, " of session ",
                                                     queue.session, " completed nothing for ",
                                                     limit_.count(), " ms: what follows command ",
                                                     queue.completed, " does not end"));
    }
    busy[key] = seen;
  }
  seen_ = std::move(busy);
  return absl::OkStatus();
}

void StallWatchdog::Run() {
  const auto pause = std::max(limit_ / kLooksPerLimit, std::chrono::milliseconds(1));
  for (;;) {
    {
      MutexLock lock(&mutex_);
      const auto until = std::chrono::steady_clock::now() + pause;
      while (!stopping_ && stopped_.WaitUntil(&mutex_, until)) {
      }
      if (stopping_) return;
    }
    const absl::Status verdict = Look(std::chrono::steady_clock::now());
    if (verdict.ok()) continue;
    on_stall_(verdict);
    return;
  }
}

}  // namespace kcache::backend
