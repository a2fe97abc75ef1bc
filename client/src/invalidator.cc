#include "client/src/invalidator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::internal {
namespace {

// How long to trust that an AFTER will come, before asking the daemon again.
constexpr Duration kDrainPatience = std::chrono::seconds(1);

v1::Invalidate WithPhase(v1::Invalidate event, v1::Phase phase) {
  event.set_phase(phase);
  event.clear_needs_ack();
  return event;
}

void TellBoth(const v1::Invalidate& event, std::vector<v1::Invalidate>* told) {
  told->push_back(WithPhase(event, v1::PHASE_BEFORE));
  told->push_back(WithPhase(event, v1::PHASE_AFTER));
}

std::optional<uint32_t> IndexOf(const v1::Invalidate& event) {
  if (!event.has_index()) return std::nullopt;
  return event.index();
}

std::string Scope(const v1::Invalidate& event) {
  if (event.family().empty()) return "all devices";
  if (!event.has_index()) return absl::StrCat("all devices of ", event.family());
  return absl::StrCat("device ", event.family(), ":", event.index());
}

// Whether a context of this device is what the event is about.
bool Concerns(const v1::Invalidate& event, const ContextState& context) {
  if (event.has_context()) return event.context().context_id() == context.id();
  const DeviceId& id = context.slot->id();
  return DeviceName{id.framework, id.index}.InScope(event.family(), IndexOf(event));
}

bool Destroys(const v1::Invalidate& event, const DeviceName& device) {
  return event.kind() == v1::INVALIDATE_DEVICE && device.InScope(event.family(), IndexOf(event));
}

}  // namespace

Invalidator::Invalidator(std::shared_ptr<Runtime> runtime, std::shared_ptr<Memo> memo,
                         std::shared_ptr<InvalidationHub> hub,
                         std::shared_ptr<InvalidationCounters> counters, Duration slow_listener,
                         Problem problem)
    : runtime_(std::move(runtime)),
      memo_(std::move(memo)),
      hub_(std::move(hub)),
      counters_(std::move(counters)),
      slow_listener_(slow_listener),
      problem_(std::move(problem)) {}

void Invalidator::Start(std::shared_ptr<Session> session, ContextMap* contexts) {
  session_ = std::move(session);
  contexts_ = contexts;
}

void Invalidator::Stop() {
  session_ = nullptr;
  ++epoch_;
  auto open = std::exchange(open_, {});
  for (auto& [key, operation] : open) {
    for (auto& then : operation.waiting) then();
  }
  before_.clear();
}

Invalidator::OperationKey Invalidator::KeyOf(const v1::Invalidate& event) {
  return {event.operation_id(), event.family(),
          event.has_index() ? static_cast<int64_t>(event.index()) : -1};
}

// What a kernel in the event's scope answers from now on.
absl::Status Invalidator::Why(const v1::Invalidate& event) {
  const std::string reason = event.reason().empty() ? "" : absl::StrCat(": ", event.reason());
  if (event.kind() == v1::INVALIDATE_LOST || event.lost()) {
    return MakeError(v1::DEVICE_LOST,
                     absl::StrCat("the context on ", Scope(event), " was lost", reason));
  }
  if (event.kind() == v1::INVALIDATE_DEVICE) {
    return MakeError(v1::DEVICE_DESTROYED, absl::StrCat(Scope(event), " was destroyed", reason));
  }
  return MakeError(v1::LEASE_REVOKED,
                   absl::StrCat("kernels on ", Scope(event), " were ",
                                event.kind() == v1::INVALIDATE_CLEAR ? "cleared" : "revoked",
                                reason, "; acquire again"));
}

void Invalidator::OnInvalidate(const v1::Invalidate& event) {
  if (session_ == nullptr) return;
  if (event.revision() <= last_revision_) {
    counters_->duplicates.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  counters_->steps.fetch_add(1, std::memory_order_relaxed);
  last_revision_ = event.revision();
  last_phase_ = event.phase();
  in_progress_.insert(event.revision());
  // Held until their gates are closed: what is revoked is not released on top of it.
  std::vector<std::shared_ptr<KernelState>> held;
  for (const auto& context : InScope(event)) {
    for (auto& kernel : KernelsOf(context.get())) held.push_back(std::move(kernel));
  }
  DropMemo(event);
  auto step = std::make_shared<Step>();
  step->event = event;
  step->epoch = epoch_;
  std::vector<v1::Invalidate> told;
  switch (event.kind()) {
    case v1::INVALIDATE_LOST:
      Lost(event, &told);
      break;
    case v1::INVALIDATE_COVER:
    case v1::INVALIDATE_MISSED:
      Covered(event, &told);
      break;
    default:
      if (event.phase() == v1::PHASE_BEFORE) {
        Before(step, &told);
      } else {
        After(event, &told);
      }
      break;
  }
  Tell(std::move(told), step);
  if (event.phase() != v1::PHASE_BEFORE || !event.needs_ack()) return;
  // Behind this step's own work: mostly there is nothing to wait for, and no timer thread to wake.
  runtime_->executor->Run([weak = weak_from_this(), step] {
    if (auto self = weak.lock(); self != nullptr && !step->done) self->ArmSlow(step);
  });
}

// ---- the kinds of steps -------------------------------------------------------------------------

void Invalidator::Before(const StepPtr& step, std::vector<v1::Invalidate>* told) {
  const v1::Invalidate& event = step->event;
  OpenOperation& operation = open_[KeyOf(event)];
  if (operation.contexts++ == 0) {
    operation.before = event;
    told->push_back(event);
  }
  if (event.kind() == v1::INVALIDATE_RESET || !event.has_context()) return;
  before_[{event.operation_id(), event.context().context_id()}] = step;
  const auto context = contexts_->find(event.context().context_id());
  if (context == contexts_->end()) return;
  step->context = context->second;
  step->kernels = KernelsOf(step->context.get());
  if (event.kind() == v1::INVALIDATE_DEVICE) step->context->destroying = true;
}

void Invalidator::After(const v1::Invalidate& event, std::vector<v1::Invalidate>* told) {
  if (auto node = before_.extract({event.operation_id(), event.context().context_id()});
      !node.empty()) {
    // Whoever has not quiesced by now is not asked any more: the host admits nothing.
    const StepPtr& step = node.mapped();
    if (step->context != nullptr) {
      CloseGates(step->kernels, step->context.get(), Why(event), [] {});
    }
  }
  if (event.kind() == v1::INVALIDATE_DEVICE && event.has_context()) {
    if (const auto context = contexts_->find(event.context().context_id());
        context != contexts_->end()) {
      EndContext(context->second, Why(event));
    }
  }
  if (event.has_failure()) problem_(FromProto(event.failure()));
  const auto operation = open_.find(KeyOf(event));
  // Told already, as part of a record that covered it.
  if (operation == open_.end()) return;
  if (--operation->second.contexts > 0) return;
  told->push_back(event);
  auto waiting = std::move(operation->second.waiting);
  open_.erase(operation);
  for (auto& then : waiting) then();
}

void Invalidator::Lost(const v1::Invalidate& event, std::vector<v1::Invalidate>* told) {
  for (const auto& context : InScope(event)) EndContext(context, Why(event));
  TellBoth(event, told);
}

// Only afterwards is it known that something was missed, not what: every kernel in scope goes. A
// context that is gone, too, says so by itself when its host closes the stream.
void Invalidator::Covered(const v1::Invalidate& event, std::vector<v1::Invalidate>* told) {
  for (const auto& context : InScope(event)) {
    const std::vector<std::shared_ptr<KernelState>> kernels = KernelsOf(context.get());
    for (const auto& kernel : kernels) kernel->release_when_closed = true;
    CloseGates(kernels, context.get(), Why(event), [] {});
    if (context->destroying) {
      v1::Invalidate destroyed = event;
      destroyed.set_kind(v1::INVALIDATE_DEVICE);
      EndContext(context, Why(destroyed));
    }
  }
  bool was_open = false;
  for (auto operation = open_.begin(); operation != open_.end();) {
    const v1::Invalidate& before = operation->second.before;
    const bool same = before.operation_id() == event.operation_id();
    const bool covered =
        event.family().empty() ||
        (before.family() == event.family() &&
         (!event.has_index() || (before.has_index() && before.index() == event.index())));
    if (event.kind() == v1::INVALIDATE_MISSED ? !same : !covered) {
      ++operation;
      continue;
    }
    was_open |= same;
    told->push_back(WithPhase(before, v1::PHASE_AFTER));
    auto waiting = std::move(operation->second.waiting);
    operation = open_.erase(operation);
    for (auto& then : waiting) then();
  }
  if (!was_open) TellBoth(event, told);
}

void Invalidator::OnSessionLost(const absl::Status& why) {
  ++epoch_;
  last_revision_ = 0;
  last_phase_ = v1::PHASE_UNSPECIFIED;
  in_progress_.clear();
  before_.clear();
  memo_->cache().Clear().IgnoreError();
  const ContextMap contexts = *contexts_;
  for (const auto& [id, context] : contexts) EndContext(context, why);
  std::vector<v1::Invalidate> told;
  auto open = std::exchange(open_, {});
  for (auto& [key, operation] : open) {
    told.push_back(WithPhase(operation.before, v1::PHASE_AFTER));
    for (auto& then : operation.waiting) then();
  }
  // No revision: of no daemon.
  v1::Invalidate everything;
  everything.set_kind(v1::INVALIDATE_COVER);
  everything.set_reason(std::string(why.message()));
  TellBoth(everything, &told);
  auto step = std::make_shared<Step>();
  step->event = everything;
  Tell(std::move(told), step);
}

// ---- effects ------------------------------------------------------------------------------------

void Invalidator::DropMemo(const v1::Invalidate& event) {
  const bool device = event.kind() == v1::INVALIDATE_DEVICE ||
                      event.kind() == v1::INVALIDATE_LOST || event.kind() == v1::INVALIDATE_COVER ||
                      event.kind() == v1::INVALIDATE_MISSED;
  if (device && !event.family().empty() && event.has_index()) {
    memo_->cache().EvictDevice(event.family(), event.index()).IgnoreError();
  } else {
    memo_->cache().Clear(event.family(), IndexOf(event)).IgnoreError();
  }
}

std::vector<std::shared_ptr<ContextState>> Invalidator::InScope(const v1::Invalidate& event) const {
  std::vector<std::shared_ptr<ContextState>> contexts;
  for (const auto& [id, context] : *contexts_) {
    if (Concerns(event, *context)) contexts.push_back(context);
  }
  return contexts;
}

void Invalidator::EndContext(const std::shared_ptr<ContextState>& context,
                             const absl::Status& why) {
  context->destroying = true;
  CloseGates(KernelsOf(context.get()), context.get(), why, [] {});
  context->stream->End(why);
  contexts_->erase(context->id());
}

std::vector<std::shared_ptr<KernelState>> Invalidator::KernelsOf(ContextState* context) {
  std::vector<std::shared_ptr<KernelState>> kernels;
  for (const auto& [slot, weak] : context->kernels) {
    if (auto kernel = weak.lock()) kernels.push_back(std::move(kernel));
  }
  return kernels;
}

void Invalidator::CloseGates(const std::vector<std::shared_ptr<KernelState>>& kernels,
                             ContextState* context, const absl::Status& why,
                             std::function<void()> quiet) {
  std::vector<LeaseGate*> gates;
  gates.reserve(kernels.size());
  for (const auto& kernel : kernels) gates.push_back(&kernel->gate);
  context->stream->CloseGates(gates, why, std::move(quiet));
}

// ---- telling and acknowledging ------------------------------------------------------------------

void Invalidator::Tell(std::vector<v1::Invalidate> events, const StepPtr& step) {
  // Behind what listeners are still busy with; with none, at once.
  if (telling_ == 0 && (events.empty() || listener_count_.load() == 0)) return OnTold(step);
  ++telling_;
  runtime_->listeners->Post([self = shared_from_this(), events = std::move(events), step] {
    absl::Status first;
    for (const v1::Invalidate& event : events) first.Update(self->hub_->Notify(event));
    self->runtime_->executor->Run([self, step, first] {
      --self->telling_;
      if (self->session_ == nullptr) return;
      if (!first.ok()) {
        if (step->event.initiator()) {
          self->listener_failures_.try_emplace(step->event.operation_id(), first);
        }
        self->problem_(Annotate(first, "a listener failed"));
      }
      self->OnTold(step);
    });
  });
}

void Invalidator::OnTold(const StepPtr& step) {
  step->listeners_done = true;
  if (step->epoch != epoch_) return;
  const v1::Invalidate& event = step->event;
  if (event.phase() != v1::PHASE_BEFORE || !event.has_context()) return Handled(step);
  if (step->context == nullptr) return Acknowledge(step);
  CloseGates(step->kernels, step->context.get(), Why(event),
             [weak = weak_from_this(), executor = runtime_->executor, step] {
               executor->Run([weak, step] {
                 if (auto self = weak.lock()) self->Acknowledge(step);
               });
             });
}

void Invalidator::Acknowledge(const StepPtr& step) {
  if (step->epoch != epoch_ || session_ == nullptr) return;
  const v1::Invalidate& event = step->event;
  if (event.needs_ack()) {
    v1::ClientEvent note;
    v1::Ack* ack = note.mutable_ack();
    ack->set_operation_id(event.operation_id());
    ack->set_context_id(event.context().context_id());
    if (step->context != nullptr) {
      for (v1::QueuePosition& position : step->context->stream->SubmitAll()) {
        *ack->add_positions() = std::move(position);
      }
    }
    counters_->acks.fetch_add(1, std::memory_order_relaxed);
    session_->Note(std::move(note));
  }
  step->kernels.clear();
  Handled(step);
}

void Invalidator::ArmSlow(const StepPtr& step) {
  step->slow = runtime_->timers->After(
      slow_listener_, [weak = weak_from_this(), executor = runtime_->executor, step] {
        executor->Run([weak, step] {
          auto self = weak.lock();
          if (self == nullptr || step->done || step->epoch != self->epoch_) return;
          v1::ClientEvent note;
          v1::Nack* nack = note.mutable_nack();
          nack->set_operation_id(step->event.operation_id());
          nack->set_context_id(step->event.context().context_id());
          nack->set_why(step->listeners_done ? absl::StrCat(step->context->stream->UsesHoldingOut(),
                                                            " use scopes are open")
                                             : "a listener is still running");
          self->session_->Note(std::move(note));
        });
      });
}

void Invalidator::Handled(const StepPtr& step) {
  if (step->done || step->epoch != epoch_) return;
  step->done = true;
  runtime_->timers->Cancel(step->slow);
  in_progress_.erase(step->event.revision());
  // In order: a later step that is done does not make an earlier one so.
  if (in_progress_.empty()) {
    session_->HandledUpTo(last_revision_, last_phase_);
  } else {
    session_->HandledUpTo(*in_progress_.begin() - 1, v1::PHASE_UNSPECIFIED);
  }
}

// ---- waiting ------------------------------------------------------------------------------------

bool Invalidator::Draining(const DeviceName& device) const {
  return std::any_of(open_.begin(), open_.end(), [&](const auto& operation) {
    return Destroys(operation.second.before, device);
  });
}

void Invalidator::AfterDrain(const DeviceName& device, Duration backoff, Duration at_most,
                             std::function<void()> then) {
  // Whichever comes first.
  auto once = [fired = std::make_shared<bool>(false), then = std::move(then)] {
    if (!std::exchange(*fired, true)) then();
  };
  for (auto& [key, operation] : open_) {
    if (!Destroys(operation.before, device)) continue;
    operation.waiting.emplace_back(once);
    backoff = kDrainPatience;
    break;
  }
  runtime_->timers->After(std::min(backoff, at_most),
                          [executor = runtime_->executor, once] { executor->Run(once); });
}

void Invalidator::WhenTold(const std::string& operation, std::function<void(absl::Status)> then) {
  auto answer = [self = shared_from_this(), operation, then = std::move(then)] {
    auto failure = self->listener_failures_.extract(operation);
    then(failure.empty() ? absl::OkStatus() : failure.mapped());
  };
  if (telling_ == 0) return answer();
  runtime_->listeners->Post(
      [executor = runtime_->executor, answer = std::move(answer)] { executor->Run(answer); });
}

}  // namespace kcache::internal
