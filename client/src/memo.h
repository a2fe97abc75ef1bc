// The outer memo: kernels this process has acquired, so that acquiring one again makes no call.
//
// A guarded cache over leases of the daemon's: every invalidation goes through EvictDevice or Clear
// on both sides of the release, so that a value built across one is never installed.
//
// Bounded: beyond its capacity, the oldest kernels that nobody else holds are dropped; kernels in
// use stay, whatever their number.
//
// Threads: any.

#ifndef KCACHE_CLIENT_MEMO_H_
#define KCACHE_CLIENT_MEMO_H_

#include <deque>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "client/src/state.h"
#include "contract/device_name.h"
#include "contract/digest.h"
#include "contract/guarded_cache.h"
#include "contract/mutex.h"

namespace kcache::internal {

struct MemoKey {
  Digest program;
  std::string entry;
  std::string specialization;  // canonical bytes; empty: none
  DeviceName device;
  uint64_t global_id = 0;

  friend bool operator==(const MemoKey&, const MemoKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const MemoKey& key) {
    return H::combine(std::move(state), key.program, key.entry, key.specialization, key.device,
                      key.global_id);
  }
};

class Memo {
 public:
  using Value = std::shared_ptr<KernelState>;
  using Cache = GuardedCache<MemoKey, Value>;

  explicit Memo(size_t capacity)
      : capacity_(capacity),
        cache_({.name = "memoized kernels", .invalidated_by_clear = true},
               // Dropping the share is all: the lease is released by its last holder.
               [](const MemoKey&, Value) { return absl::OkStatus(); }) {}

  Cache& cache() { return cache_; }

  // After a value has been installed.
  void Trim(const MemoKey& installed);

 private:
  const size_t capacity_;
  Cache cache_;
  Mutex mutex_;
  std::deque<MemoKey> order_ ABSL_GUARDED_BY(mutex_);  // oldest first; may name what is gone
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_MEMO_H_
