// Tells the layers above a cache that handles are about to go away, and that they are gone.
//
// A layer that memoizes something over somebody else's handles registers a listener; the layer that
// owns the handles runs its clears and destroys inside AroundClear and AroundDestroy. Events are
// v1.Invalidate, in a process as on the wire.
//
//        AroundClear(op, clear)                      AroundDestroy(op, device, retire, release)
//          notify BEFORE                               retire: out of circulation
//          clear()       whatever listeners said       notify BEFORE
//          notify AFTER  even when clear() failed      release()     whatever listeners said
//                                                      notify AFTER  even when release() failed
//
// Why two notifications: a build that starts after the first closes over a handle that is released
// next; only the second makes it start again (see guarded_cache.h).
//
// Nesting: a call whose scope is part of a running one of the same operation notifies nobody; the
// outer one does. It waits until the outer one's BEFORE has reached everybody, and the outer one's
// AFTER waits for it, so that also on several threads every release lies between the two. Another
// operation notifies by itself, at the same time.
//
// Failures: every listener runs. The teardown's own failure is returned, else the first listener's,
// after everything is complete. An exception counts as a failure (INTERNAL, with what()).
//
// Threads: everything may be called from any thread. Listeners run on the notifying thread, one
// after the other in the order of registration, without a lock held, from a snapshot: one
// registered meanwhile waits for the next event, one unregistered meanwhile is not called any more.
// A listener only drops what it has memoized: it releases no handles, does not block, and cannot
// start a teardown (BLOCKING_IN_LISTENER); registering and unregistering from inside one is fine.
//
// Ownership: a Registration unregisters when it is destroyed and may outlive the hub.

#ifndef KCACHE_CONTRACT_INVALIDATION_HUB_H_
#define KCACHE_CONTRACT_INVALIDATION_HUB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "contract/device_name.h"
#include "contract/operation_scope.h"
#include "kcache/v1/types.pb.h"

namespace kcache {

class InvalidationHub {
 private:
  struct Entry;
  struct State;

 public:
  // Called with the event's phase, kind, scope and operation id set.
  using Listener = std::function<absl::Status(const v1::Invalidate&)>;

  class [[nodiscard]] Registration {
   public:
    Registration() = default;
    ~Registration() { Unregister(); }
    Registration(Registration&& other) noexcept = default;
    Registration& operator=(Registration&& other) noexcept;

    // After this the listener is not running and never will: waits for calls on other threads. From
    // inside a call of the same listener it returns at once. Idempotent.
    void Unregister();
    bool registered() const { return entry_ != nullptr; }

   private:
    friend class InvalidationHub;
    Registration(std::shared_ptr<State> state, std::shared_ptr<Entry> entry)
        : state_(std::move(state)), entry_(std::move(entry)) {}
    std::shared_ptr<State> state_;
    std::shared_ptr<Entry> entry_;
  };

  InvalidationHub();
  ~InvalidationHub();
  InvalidationHub(const InvalidationHub&) = delete;
  InvalidationHub& operator=(const InvalidationHub&) = delete;

  // INVALIDATE_DEVICE and INVALIDATE_LOST, of every device or of those events that concern `device`
  // (on family and index, G6).
  Registration OnDeviceDestroy(Listener listener);
  Registration OnDeviceDestroy(DeviceName device, Listener listener);
  // INVALIDATE_CLEAR and INVALIDATE_RESET, of whatever scope.
  Registration OnClearAll(Listener listener);
  // INVALIDATE_COVER and INVALIDATE_MISSED, which may stand for anything, go to both kinds.

  // Runs every listener that `event` concerns and returns the first failure. For those who learn of
  // events rather than cause them (the client library) or whose teardown does not fit a call (the
  // daemon's core).
  absl::Status Notify(const v1::Invalidate& event);

  // What is cleared: an empty family is all of them, no index is every device of the family.
  struct ClearScope {
    std::string_view family;
    std::optional<uint32_t> index;
  };
  absl::Status AroundClear(const OperationScope& operation, const ClearScope& scope,
                           absl::FunctionRef<absl::Status()> clear);
  // Everything.
  absl::Status AroundClear(const OperationScope& operation,
                           absl::FunctionRef<absl::Status()> clear);

  // `retire` takes the device out of circulation: afterwards nobody gets a new handle on it.
  absl::Status AroundDestroy(const OperationScope& operation, std::string_view family,
                             uint32_t index, absl::FunctionRef<void()> retire,
                             absl::FunctionRef<absl::Status()> release);

  // Told like a clear of everything, with kind RESET; `retire_ids` releases nothing.
  absl::Status AroundReset(const OperationScope& operation,
                           absl::FunctionRef<absl::Status()> retire_ids);

  // Whether the calling thread is inside a listener of this hub.
  bool InListener() const;

 private:
  Registration Register(std::shared_ptr<Entry> entry);
  absl::Status Around(v1::Invalidate event, absl::FunctionRef<absl::Status()> body);

  const std::shared_ptr<State> state_;
};

}  // namespace kcache

#endif  // KCACHE_CONTRACT_INVALIDATION_HUB_H_
