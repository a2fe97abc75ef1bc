// Page-locked blocks through which copies between the host's pageable memory and a device stay
// asynchronous. Bounded: beyond kSlabs × kSlabBytes, or when the driver has no more page-locked
// memory, there are no blocks and the caller copies without one (slower, equally right).
//
// Threads: any. Ownership: the pool owns the memory; a taken block is the caller's until given
// back, and is given back only when no copy uses it any more.
#ifndef KCACHE_BACKENDS_CUDALIKE_PINNED_POOL_H_
#define KCACHE_BACKENDS_CUDALIKE_PINNED_POOL_H_

#include <cstddef>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "backends/cudalike/stream_api.h"
#include "contract/mutex.h"

namespace kcache::backend::cudalike {

class PinnedPool {
 public:
  static constexpr size_t kBlockBytes = size_t{256} << 10;
  static constexpr size_t kSlabBytes = size_t{4} << 20;
  static constexpr size_t kSlabs = 8;

  // `api` outlives the pool.
  explicit PinnedPool(StreamApi* api) : api_(api) {}
  PinnedPool(const PinnedPool&) = delete;
  PinnedPool& operator=(const PinnedPool&) = delete;

  // Enough blocks for `bytes`, or none. The context is current on the calling thread.
  std::vector<char*> Take(size_t bytes);
  void GiveBack(const std::vector<char*>& blocks);

  // Frees everything; every slab is attempted, the first failure is returned.
  absl::Status Release();

 private:
  // Adds a slab unless the limit is reached; false when nothing was added.
  bool Grow();

  StreamApi* const api_;
  Mutex mutex_;
  size_t reserved_slabs_ ABSL_GUARDED_BY(mutex_) = 0;  // allocated, or being allocated
  bool exhausted_ ABSL_GUARDED_BY(mutex_) = false;     // the driver refused a slab
  std::vector<HostMemory> slabs_ ABSL_GUARDED_BY(mutex_);
  std::vector<char*> free_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_PINNED_POOL_H_
