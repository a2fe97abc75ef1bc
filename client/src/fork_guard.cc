#include "client/src/fork_guard.h"

#include <pthread.h>

#include "contract/error_reason.h"

namespace kcache::internal {

std::atomic<uint64_t> ForkGuard::generation_{1};

void ForkGuard::CountFork() { generation_.fetch_add(1, std::memory_order_relaxed); }

ForkGuard::ForkGuard() {
  static const int registered = pthread_atfork(nullptr, nullptr, &ForkGuard::CountFork);
  (void)registered;
  born_ = generation_.load(std::memory_order_relaxed);
}

absl::Status ForkedError() {
  return MakeError(v1::FORKED,
                   "this client belongs to the parent process; a forked child must connect anew");
}

}  // namespace kcache::internal
