// The blocking call over a guarded cache, for callers that may wait: the client library's own memo.
//
// Threads: any; the build runs on the calling thread, unlocked. A build must not ask for its own
// key.

#ifndef KCACHE_CONTRACT_FIND_OR_BUILD_H_
#define KCACHE_CONTRACT_FIND_OR_BUILD_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/device_name.h"
#include "contract/error_reason.h"
#include "contract/guarded_cache.h"
#include "contract/guarded_call.h"
#include "contract/mutex.h"

namespace kcache {

struct FindOptions {
  // When to stop waiting for somebody else's build (DEADLINE_EXCEEDED; that build goes on). An own
  // build is not interrupted.
  std::optional<std::chrono::steady_clock::time_point> deadline;
  // How often a build that a clear has overlapped is started again before the answer is CLEARED.
  int clear_retries = 3;
};

namespace internal {

// Where the outcome of somebody else's build arrives.
template <typename Value>
class Mailbox {
 public:
  void Put(const absl::StatusOr<Value>& value) {
    MutexLock lock(&mutex_);
    value_ = value;
    arrived_.NotifyAll();
  }

  // Nothing when the deadline comes first.
  std::optional<absl::StatusOr<Value>> Take(
      std::optional<std::chrono::steady_clock::time_point> deadline) {
    MutexLock lock(&mutex_);
    while (!value_.has_value()) {
      if (!deadline.has_value()) {
        arrived_.Wait(&mutex_);
      } else if (!arrived_.WaitUntil(&mutex_, *deadline)) {
        break;
      }
    }
    return std::move(value_);
  }

 private:
  Mutex mutex_;
  CondVar arrived_;
  std::optional<absl::StatusOr<Value>> value_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace internal

// The value of `key`: cached, built by somebody else meanwhile, or built here. Fails with what the
// build failed with (an exception is INTERNAL), DEVICE_DESTROYED, CLEARED or DEADLINE_EXCEEDED.
// Failures are not cached.
template <typename Key, typename Value>
absl::StatusOr<Value> FindOrBuild(GuardedCache<Key, Value>* cache, const Key& key,
                                  const std::optional<DeviceName>& device,
                                  absl::FunctionRef<absl::StatusOr<Value>()> build,
                                  const FindOptions& options = {}) {
  using Cache = GuardedCache<Key, Value>;
  const auto attempt = [&]() -> absl::StatusOr<Value> {
    if (std::optional<Value> value = cache->Find(key)) return *std::move(value);
    // Shared, because a waiter that could not be cancelled may still be about to run.
    auto mailbox = std::make_shared<internal::Mailbox<Value>>();
    typename Cache::Answer answer = cache->Begin(
        key, device, [mailbox](const absl::StatusOr<Value>& value) { mailbox->Put(value); });
    if (auto* hit = std::get_if<typename Cache::Hit>(&answer)) return std::move(hit->value);
    if (auto* mine = std::get_if<typename Cache::Build>(&answer)) {
      absl::StatusOr<Value> built = GuardedCall("the build of " + cache->options().name, build);
      if (!built.ok()) {
        cache->Abandon(std::move(mine->ticket), built.status());
        return built.status();
      }
      return cache->Complete(std::move(mine->ticket), *std::move(built)).value;
    }
    std::optional<absl::StatusOr<Value>> value = mailbox->Take(options.deadline);
    if (!value.has_value()) {
      cache->CancelWait(key, std::get<typename Cache::Waiting>(answer).id);
      return MakeError(v1::DEADLINE_EXCEEDED,
                       "gave up waiting for somebody else's build of " + cache->options().name);
    }
    return *std::move(value);
  };

  absl::StatusOr<Value> value = attempt();
  for (int retry = 0; retry < options.clear_retries && cache->IsRetryable(value.status());
       ++retry) {
    value = attempt();
  }
  return value;
}

}  // namespace kcache

#endif  // KCACHE_CONTRACT_FIND_OR_BUILD_H_
