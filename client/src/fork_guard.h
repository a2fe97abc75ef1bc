// Tells a forked child from its parent. gRPC, threads and leases do not survive fork() without
// exec(), so in a child every call answers FORKED and nothing inherited is released or joined.
//
// Threads: any. The check is one relaxed load, made before any lock that may have been held at the
// fork.

#ifndef KCACHE_CLIENT_FORK_GUARD_H_
#define KCACHE_CLIENT_FORK_GUARD_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"

namespace kcache::internal {

class ForkGuard {
 public:
  ForkGuard();
  // Whether this process is a child of the one that made this object.
  bool forked() const { return born_ != generation_.load(std::memory_order_relaxed); }

 private:
  static void CountFork();

  static std::atomic<uint64_t> generation_;
  uint64_t born_;
};

absl::Status ForkedError();

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_FORK_GUARD_H_
