// The kernel handles of one context: loading, hits, and giving them back.
//
//   (miss) ──► LOADING ──reply──► READY ──clear or eviction──► DOOMED ──unloaded──► (gone)
//                 │                                               ▲
//                 └──────── reply, but cleared meanwhile ─────────┘
//
// The rules are those of guarded_cache (single flight; a build that overlaps a clear is never
// installed and is destroyed exactly once); this cache is another class because its values are slots in
// another process: building and destroying are requests that are answered later, and a slot's number
// and incarnation are on the wire.
//
// A slot's incarnation grows each time it is given out, so that a lease of an earlier life never
// matches.
//
// Threads: on the executor. Ownership: handles belong to the cache; a Handle pointer is valid until
// Forget or the cache's end.

#ifndef KCACHE_DAEMON_CORE_HANDLE_CACHE_H_
#define KCACHE_DAEMON_CORE_HANDLE_CACHE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "contract/digest.h"
#include "daemon/core/dependencies.h"
#include "kcache/v1/backend.pb.h"
#include "kcache/v1/types.pb.h"

namespace kcache::core {

enum class HandleState { kLoading, kReady, kDoomed };

struct Handle;
// Runs with the handle or with why there is none. CLEARED: it was cleared meanwhile, ask again.
using HandleWaiter = Function<void(absl::Status, Handle*)>;

// A waiter and what it is to be told.
struct HandleCall {
  HandleWaiter waiter;
  absl::Status status;
  Handle* handle = nullptr;
};

struct Handle {
  uint32_t slot = 0;
  uint32_t incarnation = 0;
  HandleState state = HandleState::kLoading;
  Digest key;       // artifact, entry and specialization
  Digest artifact;
  Digest program;
  std::string architecture;
  ArtifactPtr binary;  // while LOADING
  v1::KernelInfo kernel;
  v1::Specialization specialization;
  absl::flat_hash_set<uint64_t> holders;  // session ids
  std::vector<HandleWaiter> waiters;
  absl::Duration last_used;
};

struct HandleCounters {
  uint64_t built = 0;
  uint64_t destroyed = 0;
  uint64_t loads = 0;
  uint64_t jit_in_host = 0;  // loads in which the driver still compiled
};

class HandleCache {
 public:
  static constexpr uint64_t kJitThresholdMicroseconds = 2000;

  explicit HandleCache(HandleCounters* counters) : counters_(counters) {}
  ~HandleCache();

  // LOADING or READY; never DOOMED.
  Handle* Find(const Digest& key);
  Handle* AtSlot(uint32_t slot);
  // A new handle in a free slot, LOADING, queued for the next TakeLoad of its artifact.
  Handle* Begin(const Digest& key, const ArtifactPtr& artifact, v1::KernelInfo kernel,
                v1::Specialization specialization);

  // One request for everything that waits to be loaded of one artifact, or false. At most one
  // request an artifact is under way; the binary goes along when its module is not loaded yet.
  bool TakeLoad(v1::LoadRequest* request);
  // The host's answer: moves handles on, and returns those whose waiters must be called, and those
  // that were cleared meanwhile and must be unloaded.
  struct Loaded {
    std::vector<HandleCall> calls;
    std::vector<Handle*> stale;
  };
  Loaded OnLoaded(const v1::LoadRequest& request, const absl::StatusOr<v1::LoadReply>& reply);

  // Unlinks every READY handle and marks every LOADING one as overtaken. Returns the doomed ones,
  // newest first.
  std::vector<Handle*> DoomAll();
  // The one READY handle without holders that was not used longest; null: none.
  Handle* DoomLeastRecentlyUsed();
  // A DOOMED handle has been unloaded in the host.
  void Forget(Handle* handle);
  // The host is gone, and everything with it: calls for the waiters, with `why`.
  std::vector<HandleCall> Abandon(absl::Status why);

  template <class F>
  void ForEach(F&& each) const {
    for (const auto& slot : slots_) {
      if (slot.handle != nullptr) each(*slot.handle);
    }
  }
  size_t ready() const { return ready_; }
  size_t live() const { return live_; }

 private:
  struct Slot {
    uint32_t incarnation = 0;
    std::unique_ptr<Handle> handle;
  };
  struct Module {
    bool loaded = false;
    bool under_way = false;
    bool resend = false;  // the host turned out not to have it
    uint32_t handles = 0;
    std::vector<Handle*> waiting;
  };
  void Release(Handle* handle);

  HandleCounters* const counters_;
  absl::flat_hash_map<Digest, Handle*> by_key_;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  absl::flat_hash_map<Digest, Module> modules_;
  std::vector<Digest> to_load_;
  size_t ready_ = 0;
  size_t live_ = 0;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_HANDLE_CACHE_H_
