// A cache of things that live on devices, which never serves a value from before a clear or
// destroy.
//
// The core never blocks: Begin says what to do, the caller builds where and when it likes, and
// Complete or Abandon ends the build. For callers who may block: FindOrBuild (find_or_build.h).
//
//             Begin
//               │ value there ──────────────► Hit{value}
//               │ somebody builds it ───────► Waiting{id}: the waiter is called once, with the
//               outcome ▼                              (CancelWait gives up without disturbing the
//               build)
//             Build{ticket}: the moment is noted
//               │
//               ├─ Abandon(status), or the ticket is dropped ─► waiters fail, nothing is cached
//               ▼
//             Complete(value), in this order:
//               somebody else installed ──────────────────────► kLostRace, the winner's value
//               device destroyed since the moment ────────────► kDeviceDestroyed
//               cleared since, and the cache only borrows ────► kCleared, retryable
//               else ─────────────────────────────────────────► kInstalled
//             In the losing cases our value is destroyed, once; a failure of that does not change
//             the outcome.
//
// Single flight: while a key is built, nobody else builds it, different keys do not wait for each
// other. A build that a clear or destroy has made stale is not waited for: the next asker builds
// anew.
//
// One counter, which only grows, orders builds, clears and destroys, so no epoch or generation is
// ever reused. Always destroyed + retained = built: `destroy` is called exactly once for each value
// that was built and is not in the cache.
//
// Threads: any. `destroy` and waiters run on the calling thread, with no lock held. Ownership: the
// cache owns its values until it hands them to `destroy`; its destructor destroys what is left.
// Tickets must not outlive the cache.

#ifndef KCACHE_CONTRACT_GUARDED_CACHE_H_
#define KCACHE_CONTRACT_GUARDED_CACHE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/functional/any_invocable.h"
#include "absl/hash/hash.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/device_name.h"
#include "contract/error_reason.h"
#include "contract/guarded_call.h"
#include "contract/mutex.h"
#include "contract/teardown_clock.h"

namespace kcache {

struct GuardedCacheOptions {
  // For messages: "kernel handles".
  std::string name;
  // The values close over handles of another owner, which a clear releases: a build that a clear
  // overlaps is rejected. False: values own what they need, and such a build is installed.
  bool invalidated_by_clear = true;
};

enum class BuildOutcome { kInstalled, kLostRace, kDeviceDestroyed, kCleared };

// `Key` hashes with Abseil; `Value` is cheap to copy: a handle or a shared_ptr.
template <typename Key, typename Value>
class GuardedCache {
 public:
  // Gives back one value, after it has been unlinked.
  using Destroy = absl::AnyInvocable<absl::Status(const Key&, const Value&) const>;
  using Waiter = absl::AnyInvocable<void(const absl::StatusOr<Value>&)>;
  using WaiterId = uint64_t;

 private:
  using Waiters = std::map<WaiterId, Waiter>;

  // A build that is under way.
  struct Flight {
    std::optional<DeviceName> device;
    TeardownClock::Moment started;
    Waiters waiters;
  };

 public:
  // The right and duty to end one build. Dropping it abandons the build.
  class [[nodiscard]] Ticket {
   public:
    Ticket(Ticket&& other) noexcept
        : cache_(std::exchange(other.cache_, nullptr)),
          key_(std::move(other.key_)),
          flight_(std::move(other.flight_)) {}
    Ticket& operator=(Ticket&& other) noexcept {
      if (this != &other) {
        Drop();
        cache_ = std::exchange(other.cache_, nullptr);
        key_ = std::move(other.key_);
        flight_ = std::move(other.flight_);
      }
      return *this;
    }
    ~Ticket() { Drop(); }

    const Key& key() const { return key_; }

   private:
    friend class GuardedCache;
    struct Parts {
      GuardedCache* cache;
      Key key;
      std::shared_ptr<Flight> flight;
    };

    Ticket(GuardedCache* cache, Key key, std::shared_ptr<Flight> flight)
        : cache_(cache), key_(std::move(key)), flight_(std::move(flight)) {}

    Parts Take() { return {std::exchange(cache_, nullptr), std::move(key_), std::move(flight_)}; }

    void Drop() {
      if (cache_ == nullptr) return;
      Parts parts = Take();
      parts.cache->AbandonFlight(
          parts.key, parts.flight,
          MakeError(v1::CANCELLED, "the build of " + parts.cache->options_.name +
                                       " was given up before it ended"));
    }

    GuardedCache* cache_;
    Key key_;
    std::shared_ptr<Flight> flight_;
  };

  struct Hit {
    Value value;
  };
  struct Build {
    Ticket ticket;
  };
  struct Waiting {
    WaiterId id;
  };
  using Answer = std::variant<Hit, Build, Waiting>;

  struct Completion {
    BuildOutcome outcome;
    // The value now in the cache (kInstalled, kLostRace), else DEVICE_DESTROYED or CLEARED, naming
    // the device.
    absl::StatusOr<Value> value;
    // How the destruction of a losing value went.
    absl::Status destroyed;
  };

  struct Statistics {
    uint64_t built = 0;             // values handed to Complete
    uint64_t destroyed = 0;         // values handed to `destroy`
    uint64_t retained = 0;          // values in the cache now
    uint64_t destroy_failures = 0;  // of `destroyed`
    uint64_t hits = 0;
    uint64_t joined = 0;          // answers Waiting
    uint64_t builds_started = 0;  // answers Build
    uint64_t builds_failed = 0;   // abandoned
  };

  GuardedCache(GuardedCacheOptions options, Destroy destroy)
      : options_(std::move(options)), destroy_(std::move(destroy)) {}
  ~GuardedCache() { DestroyAll(UnlinkAll()).IgnoreError(); }
  GuardedCache(const GuardedCache&) = delete;
  GuardedCache& operator=(const GuardedCache&) = delete;

  std::optional<Value> Find(const Key& key) {
    MutexLock lock(&mutex_);
    const auto entry = entries_.find(key);
    if (entry == entries_.end()) return std::nullopt;
    ++statistics_.hits;
    return entry->second.value;
  }

  // `device` is what the value will live on, if anything. `waiter` is kept only for Waiting.
  Answer Begin(const Key& key, const std::optional<DeviceName>& device, Waiter waiter) {
    MutexLock lock(&mutex_);
    if (const auto entry = entries_.find(key); entry != entries_.end()) {
      ++statistics_.hits;
      return Hit{entry->second.value};
    }
    const auto flight = flights_.find(key);
    if (flight != flights_.end() && !IsStale(*flight->second)) {
      ++statistics_.joined;
      const WaiterId id = ++last_waiter_;
      flight->second->waiters.emplace(id, std::move(waiter));
      return Waiting{id};
    }
    ++statistics_.builds_started;
    auto started = std::make_shared<Flight>(Flight{device, clock_.Now(), {}});
    flights_[key] = started;
    return Build{Ticket(this, key, std::move(started))};
  }

  // Ends a build with its value.
  Completion Complete(Ticket ticket, Value value) {
    const auto [cache, key, flight] = ticket.Take();
    Waiters waiters;
    Completion completion{BuildOutcome::kInstalled, value, absl::OkStatus()};
    {
      MutexLock lock(&mutex_);
      waiters = EndFlight(key, flight);
      ++statistics_.built;
      const auto installed = entries_.find(key);
      if (installed != entries_.end()) {
        completion.outcome = BuildOutcome::kLostRace;
        completion.value = installed->second.value;
      } else if (DestroyedSince(*flight)) {
        completion.outcome = BuildOutcome::kDeviceDestroyed;
        completion.value = DestroyedError(*flight->device);
      } else if (ClearedSince(*flight)) {
        completion.outcome = BuildOutcome::kCleared;
        completion.value = ClearedError(flight->device);
      } else {
        entries_.emplace(key, Entry{value, flight->device});
      }
      if (completion.outcome != BuildOutcome::kInstalled) ++statistics_.destroyed;
    }
    if (completion.outcome != BuildOutcome::kInstalled) {
      completion.destroyed = DestroyOne(key, value);
    }
    CallWaiters(std::move(waiters), completion.value);
    return completion;
  }

  // Ends a build without a value: everyone who waits gets `status`. An OK one makes no value, so it
  // becomes INTERNAL.
  void Abandon(Ticket ticket, const absl::Status& status) {
    const auto [cache, key, flight] = ticket.Take();
    AbandonFlight(key, flight,
                  status.ok() ? MakeError(v1::INTERNAL, "the build of " + options_.name +
                                                            " was abandoned without a reason")
                              : status);
  }

  // Gives up waiting. True if the waiter will not be called; false if it was, or is about to be.
  bool CancelWait(const Key& key, WaiterId id) {
    Waiter dropped;  // destroyed after the lock is gone
    MutexLock lock(&mutex_);
    const auto flight = flights_.find(key);
    if (flight == flights_.end()) return false;
    const auto waiter = flight->second->waiters.find(id);
    if (waiter == flight->second->waiters.end()) return false;
    dropped = std::move(waiter->second);
    flight->second->waiters.erase(waiter);
    return true;
  }

  // Destroys one value. OK if it is not there.
  absl::Status Erase(const Key& key) {
    Unlinked unlinked;
    {
      MutexLock lock(&mutex_);
      const auto entry = entries_.find(key);
      if (entry == entries_.end()) return absl::OkStatus();
      unlinked.emplace_back(key, std::move(entry->second.value));
      entries_.erase(entry);
      ++statistics_.destroyed;
    }
    return DestroyAll(std::move(unlinked));
  }

  // The device (of this family, variants included) is being destroyed: builds for it that run now
  // are stale, its values are destroyed. Every one is attempted; the first failure is returned.
  absl::Status EvictDevice(std::string_view family, uint32_t index) {
    Unlinked unlinked;
    {
      MutexLock lock(&mutex_);
      clock_.NoteDestroy(family, index);
      unlinked = Unlink(family, index);
    }
    return DestroyAll(std::move(unlinked));
  }

  // Destroys the values in scope: of every device and of none (the default), of a family, of one
  // device. Builds in scope are stale if the cache borrows. Failures as in EvictDevice.
  absl::Status Clear(std::string_view family = {}, std::optional<uint32_t> index = std::nullopt) {
    Unlinked unlinked;
    {
      MutexLock lock(&mutex_);
      clock_.NoteClear(family, index);
      unlinked = Unlink(family, index);
    }
    return DestroyAll(std::move(unlinked));
  }

  size_t size() const {
    MutexLock lock(&mutex_);
    return entries_.size();
  }

  Statistics statistics() const {
    MutexLock lock(&mutex_);
    Statistics statistics = statistics_;
    statistics.retained = entries_.size();
    return statistics;
  }

  const GuardedCacheOptions& options() const { return options_; }

  // Whether `status` says that a clear of this cache has overtaken a build, which may be tried
  // again. A build may itself fail with CLEARED, when a cache below has given up; that is not
  // meant.
  bool IsRetryable(const absl::Status& status) const {
    if (status.ok() || ReasonOf(status) != v1::CLEARED) return false;
    const ErrorDetails details = DetailsOf(status);
    const auto cache = details.find(std::string(kClearedCache));
    return cache != details.end() && cache->second == options_.name;
  }

 private:
  using Unlinked = std::vector<std::pair<Key, Value>>;

  static constexpr std::string_view kClearedCache = "cleared_cache";

  struct Entry {
    Value value;
    std::optional<DeviceName> device;
  };

  bool DestroyedSince(const Flight& flight) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return flight.device.has_value() && clock_.DestroyedSince(*flight.device, flight.started);
  }
  bool ClearedSince(const Flight& flight) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return options_.invalidated_by_clear && clock_.ClearedSince(flight.device, flight.started);
  }
  bool IsStale(const Flight& flight) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return DestroyedSince(flight) || ClearedSince(flight);
  }

  absl::Status DestroyedError(const DeviceName& device) const {
    return MakeError(
        v1::DEVICE_DESTROYED,
        "device " + device.ToString() + " was destroyed during the build of " + options_.name,
        {{"device", device.ToString()}});
  }
  absl::Status ClearedError(const std::optional<DeviceName>& device) const {
    const std::string on = device.has_value() ? " on " + device->ToString() : std::string();
    return MakeError(v1::CLEARED, options_.name + on + " were cleared during the build",
                     {{std::string(kClearedCache), options_.name}});
  }

  // Takes the flight out, unless a later one has replaced it, and returns who waits for it.
  Waiters EndFlight(const Key& key, const std::shared_ptr<Flight>& flight)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto current = flights_.find(key);
    if (current != flights_.end() && current->second == flight) flights_.erase(current);
    return std::exchange(flight->waiters, {});
  }

  void AbandonFlight(const Key& key, const std::shared_ptr<Flight>& flight,
                     const absl::Status& status) {
    Waiters waiters;
    {
      MutexLock lock(&mutex_);
      waiters = EndFlight(key, flight);
      ++statistics_.builds_failed;
    }
    CallWaiters(std::move(waiters), status);
  }

  static void CallWaiters(Waiters waiters, const absl::StatusOr<Value>& value) {
    for (auto& [id, waiter] : waiters) {
      if (waiter != nullptr) waiter(value);
    }
  }

  Unlinked UnlinkAll() {
    MutexLock lock(&mutex_);
    return Unlink({}, std::nullopt);
  }

  Unlinked Unlink(std::string_view family, std::optional<uint32_t> index)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Unlinked unlinked;
    for (auto entry = entries_.begin(); entry != entries_.end();) {
      const std::optional<DeviceName>& device = entry->second.device;
      const bool everything = family.empty() && !index.has_value();
      if (everything || (device.has_value() && device->InScope(family, index))) {
        unlinked.emplace_back(entry->first, std::move(entry->second.value));
        entries_.erase(entry++);
      } else {
        ++entry;
      }
    }
    statistics_.destroyed += unlinked.size();
    return unlinked;
  }

  absl::Status DestroyAll(Unlinked unlinked) {
    absl::Status first_failure;
    for (auto& [key, value] : unlinked) first_failure.Update(DestroyOne(key, value));
    return first_failure;
  }

  absl::Status DestroyOne(const Key& key, const Value& value) {
    absl::Status status =
        GuardedCall("destroying one of " + options_.name, [&] { return destroy_(key, value); });
    if (!status.ok()) {
      MutexLock lock(&mutex_);
      ++statistics_.destroy_failures;
    }
    return status;
  }

  const GuardedCacheOptions options_;
  const Destroy destroy_;

  mutable Mutex mutex_;
  absl::flat_hash_map<Key, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<Key, std::shared_ptr<Flight>> flights_ ABSL_GUARDED_BY(mutex_);
  TeardownClock clock_ ABSL_GUARDED_BY(mutex_);
  WaiterId last_waiter_ ABSL_GUARDED_BY(mutex_) = 0;
  Statistics statistics_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache

#endif  // KCACHE_CONTRACT_GUARDED_CACHE_H_
