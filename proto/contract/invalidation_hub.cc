#include "contract/invalidation_hub.h"

#include <algorithm>
#include <list>
#include <optional>
#include <thread>
#include <vector>

#include "contract/error_reason.h"
#include "contract/guarded_call.h"
#include "contract/mutex.h"

namespace kcache {

// One registered listener.
struct InvalidationHub::Entry {
  bool device_events = false;
  bool clear_events = false;
  std::optional<DeviceName> device;  // only events that concern it
  Listener listener;

  // Guarded by State::mutex.
  bool registered = true;
  std::vector<std::thread::id> running;  // threads inside `listener`

  bool Concerns(const v1::Invalidate& event) const;
  bool RunsOn(std::thread::id thread) const {
    return std::find(running.begin(), running.end(), thread) != running.end();
  }
};

namespace {

std::optional<uint32_t> IndexOf(const v1::Invalidate& event) {
  return event.has_index() ? std::optional<uint32_t>(event.index()) : std::nullopt;
}

// Whether everybody who must be told of `inner` is told of `outer`.
bool Covers(const v1::Invalidate& outer, const v1::Invalidate& inner) {
  return outer.operation_id() == inner.operation_id() && outer.kind() == inner.kind() &&
         (outer.family().empty() || outer.family() == inner.family()) &&
         (!outer.has_index() || IndexOf(outer) == IndexOf(inner));
}

absl::Status TeardownInListener() {
  return MakeError(v1::BLOCKING_IN_LISTENER,
                   "a teardown was started inside an invalidation listener, which may only drop "
                   "what it has memoized");
}

// One outermost Around call and those nested in it.
struct Round {
  explicit Round(const v1::Invalidate& scope) : event(scope) {}

  const v1::Invalidate event;
  bool told_before = false;  // BEFORE has reached everybody
  int nested = 0;            // nested calls whose body has not ended
};

}  // namespace

struct InvalidationHub::State {
  Mutex mutex;
  CondVar changed;
  std::vector<std::shared_ptr<Entry>> entries ABSL_GUARDED_BY(mutex);
  std::list<Round> rounds ABSL_GUARDED_BY(mutex);

  // The thread of every call of a listener that has not returned, unregistered ones included.
  std::vector<std::thread::id> inside ABSL_GUARDED_BY(mutex);

  bool InListener() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    return std::find(inside.begin(), inside.end(), std::this_thread::get_id()) != inside.end();
  }

  bool Enter(Entry* entry) {
    MutexLock lock(&mutex);
    if (!entry->registered) return false;
    entry->running.push_back(std::this_thread::get_id());
    inside.push_back(std::this_thread::get_id());
    return true;
  }

  void Leave(Entry* entry) {
    const auto erase_one = [](std::vector<std::thread::id>* threads) {
      threads->erase(std::find(threads->begin(), threads->end(), std::this_thread::get_id()));
    };
    MutexLock lock(&mutex);
    erase_one(&entry->running);
    erase_one(&inside);
    changed.NotifyAll();
  }
};

bool InvalidationHub::Entry::Concerns(const v1::Invalidate& event) const {
  bool kind_matches = false;
  switch (event.kind()) {
    case v1::INVALIDATE_DEVICE:
    case v1::INVALIDATE_LOST:
      kind_matches = device_events;
      break;
    case v1::INVALIDATE_CLEAR:
    case v1::INVALIDATE_RESET:
      kind_matches = clear_events;
      break;
    default:  // COVER, MISSED, and what a newer peer may add: rather once too often
      kind_matches = true;
      break;
  }
  return kind_matches && (!device.has_value() || device->InScope(event.family(), IndexOf(event)));
}

InvalidationHub::InvalidationHub() : state_(std::make_shared<State>()) {}
InvalidationHub::~InvalidationHub() = default;

InvalidationHub::Registration& InvalidationHub::Registration::operator=(
    Registration&& other) noexcept {
  if (this != &other) {
    Unregister();
    state_ = std::move(other.state_);
    entry_ = std::move(other.entry_);
  }
  return *this;
}

void InvalidationHub::Registration::Unregister() {
  const std::shared_ptr<State> state = std::move(state_);
  const std::shared_ptr<Entry> entry = std::move(entry_);
  if (entry == nullptr) return;
  MutexLock lock(&state->mutex);
  entry->registered = false;
  std::erase(state->entries, entry);
  // Inside a call of the same listener, waiting for it would never end.
  if (entry->RunsOn(std::this_thread::get_id())) return;
  while (!entry->running.empty()) state->changed.Wait(&state->mutex);
}

InvalidationHub::Registration InvalidationHub::Register(std::shared_ptr<Entry> entry) {
  MutexLock lock(&state_->mutex);
  state_->entries.push_back(entry);
  return Registration(state_, std::move(entry));
}

InvalidationHub::Registration InvalidationHub::OnDeviceDestroy(Listener listener) {
  auto entry = std::make_shared<Entry>();
  entry->device_events = true;
  entry->listener = std::move(listener);
  return Register(std::move(entry));
}

InvalidationHub::Registration InvalidationHub::OnDeviceDestroy(DeviceName device,
                                                               Listener listener) {
  auto entry = std::make_shared<Entry>();
  entry->device_events = true;
  entry->device = std::move(device);
  entry->listener = std::move(listener);
  return Register(std::move(entry));
}

InvalidationHub::Registration InvalidationHub::OnClearAll(Listener listener) {
  auto entry = std::make_shared<Entry>();
  entry->clear_events = true;
  entry->listener = std::move(listener);
  return Register(std::move(entry));
}

absl::Status InvalidationHub::Notify(const v1::Invalidate& event) {
  std::vector<std::shared_ptr<Entry>> snapshot;
  {
    MutexLock lock(&state_->mutex);
    std::copy_if(state_->entries.begin(), state_->entries.end(), std::back_inserter(snapshot),
                 [&](const auto& entry) { return entry->Concerns(event); });
  }
  absl::Status first_failure;
  for (const std::shared_ptr<Entry>& entry : snapshot) {
    if (!state_->Enter(entry.get())) continue;
    first_failure.Update(
        GuardedCall("an invalidation listener", [&] { return entry->listener(event); }));
    state_->Leave(entry.get());
  }
  return first_failure;
}

absl::Status InvalidationHub::Around(v1::Invalidate event, absl::FunctionRef<absl::Status()> body) {
  State& state = *state_;
  std::list<Round>::iterator round;
  bool nested = false;
  {
    MutexLock lock(&state.mutex);
    if (state.InListener()) return TeardownInListener();
    round = std::find_if(state.rounds.begin(), state.rounds.end(),
                         [&](const Round& outer) { return Covers(outer.event, event); });
    nested = round != state.rounds.end();
    if (nested) {
      ++round->nested;
      while (!round->told_before) state.changed.Wait(&state.mutex);
    } else {
      round = state.rounds.insert(state.rounds.end(), Round{event});
    }
  }
  if (nested) {
    absl::Status status = GuardedCall("a teardown", body);
    MutexLock lock(&state.mutex);
    --round->nested;
    state.changed.NotifyAll();
    return status;
  }

  event.set_phase(v1::PHASE_BEFORE);
  absl::Status listeners = Notify(event);
  {
    MutexLock lock(&state.mutex);
    round->told_before = true;
    state.changed.NotifyAll();
  }
  absl::Status teardown = GuardedCall("a teardown", body);
  {
    MutexLock lock(&state.mutex);
    while (round->nested > 0) state.changed.Wait(&state.mutex);
    // From here on a call of the same operation is no longer covered and notifies by itself.
    state.rounds.erase(round);
  }
  event.set_phase(v1::PHASE_AFTER);
  listeners.Update(Notify(event));
  teardown.Update(listeners);
  return teardown;
}

absl::Status InvalidationHub::AroundClear(const OperationScope& operation, const ClearScope& scope,
                                          absl::FunctionRef<absl::Status()> clear) {
  v1::Invalidate event;
  event.set_kind(v1::INVALIDATE_CLEAR);
  event.set_operation_id(operation.id());
  event.set_family(std::string(scope.family));
  if (scope.index.has_value()) event.set_index(*scope.index);
  return Around(std::move(event), clear);
}

absl::Status InvalidationHub::AroundClear(const OperationScope& operation,
                                          absl::FunctionRef<absl::Status()> clear) {
  return AroundClear(operation, ClearScope{}, clear);
}

absl::Status InvalidationHub::AroundDestroy(const OperationScope& operation,
                                            std::string_view family, uint32_t index,
                                            absl::FunctionRef<void()> retire,
                                            absl::FunctionRef<absl::Status()> release) {
  if (InListener()) return TeardownInListener();
  absl::Status retired = GuardedCall("taking a device out of circulation", [&] {
    retire();
    return absl::OkStatus();
  });
  v1::Invalidate event;
  event.set_kind(v1::INVALIDATE_DEVICE);
  event.set_operation_id(operation.id());
  event.set_family(std::string(family));
  event.set_index(index);
  absl::Status status = Around(std::move(event), release);
  retired.Update(status);
  return retired;
}

absl::Status InvalidationHub::AroundReset(const OperationScope& operation,
                                          absl::FunctionRef<absl::Status()> retire_ids) {
  v1::Invalidate event;
  event.set_kind(v1::INVALIDATE_RESET);
  event.set_operation_id(operation.id());
  return Around(std::move(event), retire_ids);
}

bool InvalidationHub::InListener() const {
  MutexLock lock(&state_->mutex);
  return state_->InListener();
}

}  // namespace kcache
