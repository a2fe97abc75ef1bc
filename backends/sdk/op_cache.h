// What one device host memoizes beside kernels: scratch blocks, and who has been somewhere first.
//
// Scratch is grow-only under its tag: a smaller request returns the same block; a larger one makes
// a new block, and the old one is handed to `retire`, to be freed when what is in flight on it is
// done. A failed growth keeps the old block.
//
// first_n and first_shape count in this host alone, so that a new one arms them again. Names are
// compared, never hashes of them; once("k") and first_shape("k", 0, 0, 0) are different things.
//
// Threads: any.

#ifndef KCACHE_BACKENDS_SDK_OP_CACHE_H_
#define KCACHE_BACKENDS_SDK_OP_CACHE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "backends/sdk/driver.h"
#include "backends/sdk/ledger.h"
#include "contract/mutex.h"

namespace kcache::backend {

struct ScratchBlock {
  MemoryHandle memory = 0;
  uint64_t bytes = 0;
  LedgerId ledger = 0;
};

class OpCache {
 public:
  // `retire` takes over a block that was replaced.
  OpCache(Context* context, Ledger* ledger, std::function<void(ScratchBlock)> retire)
      : context_(context), ledger_(ledger), retire_(std::move(retire)) {}

  absl::StatusOr<ScratchBlock> Scratch(const std::string& tag, uint64_t bytes);
  // The block of a tag now; memory 0 when there is none.
  ScratchBlock Current(const std::string& tag) const;
  uint64_t scratch_bytes() const;

  // True the first `n` times. LIMIT_EXCEEDED when too many different keys are known.
  absl::StatusOr<bool> FirstN(const std::string& key, uint32_t n);
  absl::StatusOr<bool> FirstShape(const std::string& name, uint32_t m, uint32_t n, uint32_t k);

 private:
  static constexpr size_t kMaxKeys = 1u << 18;

  Context* const context_;
  Ledger* const ledger_;
  const std::function<void(ScratchBlock)> retire_;
  Mutex growing_;  // one growth at a time; held across the allocation, never by readers
  mutable Mutex mutex_;
  std::map<std::string, ScratchBlock> scratch_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::string, uint32_t> counts_ ABSL_GUARDED_BY(mutex_);
  std::set<std::tuple<std::string, uint32_t, uint32_t, uint32_t>> shapes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_OP_CACHE_H_
