#include "daemon/core/drain.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::core {
namespace {

// How much longer than what it was given a host may take to answer, before it is killed.
constexpr absl::Duration kAnswerMargin = absl::Seconds(3);

uint64_t Milliseconds(absl::Duration duration) {
  return static_cast<uint64_t>(absl::ToInt64Milliseconds(duration));
}

std::string_view Name(ContextDrain::Stage stage) {
  switch (stage) {
    case ContextDrain::Stage::kWaiting:
      return "waiting";
    case ContextDrain::Stage::kFencing:
      return "fencing";
    case ContextDrain::Stage::kReleasing:
      return "releasing";
    case ContextDrain::Stage::kDone:
      return "done";
  }
  return "?";
}

}  // namespace

ContextDrain::ContextDrain(Core* core, std::shared_ptr<Context> context, Kind kind,
                           std::string operation_id, absl::Duration grace, absl::Duration finish,
                           Slots slots, Function<void()> on_change,
                           Function<void()> on_released, Function<void()> on_done)
    : core_(core),
      context_(std::move(context)),
      kind_(kind),
      operation_id_(std::move(operation_id)),
      grace_(grace),
      finish_(finish),
      slots_(std::move(slots)),
      on_change_(std::move(on_change)),
      on_released_(std::move(on_released)),
      on_done_(std::move(on_done)),
      made_(core_->deps.clock->Now()) {}

void ContextDrain::Start(const std::vector<SessionId>& holders) {
  const absl::Duration now = core_->deps.clock->Now();
  was_alive_ = context_->host() != nullptr;
  for (SessionId holder : holders) waiting_[holder] = {.since = now, .nack = ""};
  holders_ = static_cast<uint32_t>(waiting_.size());
  RecordStart();
  if (waiting_.empty()) {
    core_->deps.executor->Post([self = shared_from_this()] { self->Fence(); });
    return;
  }
  grace_due_ = now + grace_;
  Arm(grace_, [this] { OnGraceOver(); });
}

void ContextDrain::StartStuck() {
  was_alive_ = context_->host() != nullptr;
  RecordStart();
  core_->deps.executor->Post([self = shared_from_this()] {
    if (self->done()) return;
    // As far as the operation got that has found it STUCK.
    self->MoveTo(self->context_->state() == ContextState::kReleasing ? Stage::kReleasing
                                                                     : Stage::kFencing);
    self->Kill("has not gone since it was killed");
  });
}

void ContextDrain::StartExit() {
  was_alive_ = true;
  MoveTo(Stage::kReleasing);
  WatchExit();
}

void ContextDrain::MoveTo(Stage next) {
  stage_ = next;
  // The history's drains are of operations that release something.
  if (core_->deps.history == nullptr || kind_ == Kind::kExit) return;
  core_->deps.history->Record("drain-stage", {{"operation", ToHex(operation_id_)},
                                              {"context", context_->id()},
                                              {"stage", Name(next)},
                                              {"lost", outcome_.lost ? 1u : 0u},
                                              {"stuck", outcome_.stuck ? 1u : 0u}});
}

void ContextDrain::RecordStart() const {
  if (core_->deps.history == nullptr || kind_ == Kind::kExit) return;
  std::string slots;
  for (const auto& [slot, incarnation] : slots_) absl::StrAppend(&slots, slot, ".", incarnation, ",");
  core_->deps.history->Record("drain", {{"operation", ToHex(operation_id_)},
                                        {"context", context_->id()},
                                        {"kind", kind_ == Kind::kDestroy ? "destroy" : "clear"},
                                        {"grace_ms", Milliseconds(grace_)},
                                        {"slots", slots}});
}

void ContextDrain::RecordHolder(std::string_view what, SessionId session) const {
  if (core_->deps.history == nullptr) return;
  core_->deps.history->Record(what, {{"operation", ToHex(operation_id_)},
                                     {"context", context_->id()},
                                     {"session", session}});
}

void ContextDrain::Arm(absl::Duration delay, Function<void()> then) {
  core_->deps.executor->Cancel(timer_);
  timer_ = core_->deps.executor->RunAfter(
      delay, [self = shared_from_this(), then = std::move(then)]() mutable { then(); });
}

void ContextDrain::Holder(SessionId session, uint32_t* counter) {
  if (waiting_.erase(session) == 0) return;
  RecordHolder(counter == &outcome_.acked ? "acked" : "gone", session);
  ++*counter;
  // Who watches is told of the last one; before that, often enough by the table's tick.
  if (stage_ == Stage::kWaiting && waiting_.empty()) Fence();
}

void ContextDrain::OnAck(SessionId session) { Holder(session, &outcome_.acked); }

void ContextDrain::OnHolderGone(SessionId session) { Holder(session, &outcome_.gone); }

void ContextDrain::OnNack(SessionId session, std::string why) {
  auto found = waiting_.find(session);
  if (found == waiting_.end()) return;
  found->second.nack = std::move(why);  // explains; never extends
  on_change_();
}

void ContextDrain::OnGraceOver() {
  const absl::Duration late = core_->deps.clock->Now() - grace_due_;
  if (late > core_->options.limits.session_ttl / 4 && !grace_extended_) {
    // It was this daemon that slept: acknowledgements may be waiting in its sockets.
    grace_extended_ = true;
    grace_due_ = core_->deps.clock->Now() + grace_;
    Arm(grace_, [this] { OnGraceOver(); });
    return;
  }
  for (const auto& [session, waiting] : waiting_) {
    outcome_.unacked.push_back(session);
    RecordHolder("grace-over", session);
    const Session* holder = core_->sessions.Find(session);
    outcome_.failures.push_back(absl::StrCat(
        "lease of ", holder == nullptr ? "an ended session" : holder->Describe(),
        ": revoked unacknowledged after ", absl::FormatDuration(grace_),
        waiting.nack.empty() ? "" : absl::StrCat(" (it said: ", waiting.nack, ")")));
  }
  waiting_.clear();
  Fence();
}

void ContextDrain::Fence() {
  if (stage_ != Stage::kWaiting || superseded_) return;
  core_->deps.executor->Cancel(timer_);
  MoveTo(Stage::kFencing);
  outcome_.waited = core_->deps.clock->Now() - made_;
  on_change_();
  DeviceHost* host = context_->host();
  if (host == nullptr) {
    // Still starting; the context ends it as soon as it is there.
    WatchExit();
    return;
  }
  const absl::Duration wait = core_->options.limits.fence_wait;
  v1::FenceRequest request;
  request.set_operation_id(operation_id_);
  request.set_wait_ms(Milliseconds(wait));
  if (kind_ == Kind::kDestroy) {
    request.set_context(true);
  } else {
    for (const auto& [slot, incarnation] : slots_) {
      v1::SlotRef* ref = request.mutable_slots()->add_slots();
      ref->set_slot(slot);
      ref->set_incarnation(incarnation);
    }
  }
  context_->FillPositions(nullptr, &request);
  Arm(wait + kAnswerMargin, [this] { Kill("did not confirm the fence in time"); });
  host->Fence(std::move(request),
              [self = shared_from_this()](absl::StatusOr<v1::FenceReply> reply) {
                if (self->stage_ != Stage::kFencing) return;
                if (!reply.ok()) {
                  self->Kill(absl::StrCat("could not fence: ", reply.status().ToString()));
                  return;
                }
                self->Release();
              });
}

void ContextDrain::Release() {
  core_->deps.executor->Cancel(timer_);
  if (superseded_) return;
  MoveTo(Stage::kReleasing);
  on_change_();
  if (kind_ == Kind::kClear) return ReleaseHandles();

  context_->MoveTo(ContextState::kReleasing);
  DeviceHost* host = context_->host();
  if (host == nullptr) return WatchExit();
  v1::TeardownRequest request;
  request.set_operation_id(operation_id_);
  request.set_finish_ms(Milliseconds(finish_));
  Arm(finish_ + kAnswerMargin, [this] { Kill("did not finish its teardown in time"); });
  host->Teardown(std::move(request),
                 [self = shared_from_this()](absl::StatusOr<v1::TeardownReply> reply) {
                   if (self->stage_ != Stage::kReleasing || self->torn_down_) return;
                   if (!reply.ok()) {
                     self->Kill(absl::StrCat("teardown failed: ", reply.status().ToString()));
                     return;
                   }
                   DrainOutcome& outcome = self->outcome_;
                   outcome.released.assign(reply->released().begin(), reply->released().end());
                   outcome.failures.insert(outcome.failures.end(), reply->failures().begin(),
                                           reply->failures().end());
                   if (!reply->finished()) {
                     self->Kill(absl::StrCat("still had work in flight after ",
                                             absl::FormatDuration(self->finish_)));
                     return;
                   }
                   self->torn_down_ = true;
                   self->WatchExit();
                 });
}

void ContextDrain::ReleaseHandles() {
  DeviceHost* host = context_->host();
  if (host == nullptr) return;  // its exit is on the way
  v1::UnloadRequest request;
  request.set_finish_ms(Milliseconds(finish_));
  for (const auto& [slot, incarnation] : slots_) {
    v1::SlotRef* ref = request.add_slots();
    ref->set_slot(slot);
    ref->set_incarnation(incarnation);
  }
  Arm(finish_ + kAnswerMargin, [this] { Kill("did not unload in time"); });
  host->Unload(std::move(request),
               [self = shared_from_this()](absl::StatusOr<v1::UnloadReply> reply) {
                 if (self->stage_ != Stage::kReleasing || self->superseded_) return;
                 if (!reply.ok()) {
                   self->Kill(absl::StrCat("could not unload: ", reply.status().ToString()));
                   return;
                 }
                 DrainOutcome& outcome = self->outcome_;
                 outcome.failures.insert(outcome.failures.end(), reply->failures().begin(),
                                         reply->failures().end());
                 self->on_released_();
                 if (reply->finished()) {
                   for (const auto& [slot, incarnation] : self->slots_) {
                     outcome.released.push_back(absl::StrCat("handle ", slot, ".", incarnation));
                   }
                   self->context_->ForgetUnloaded(self->slots_);
                 } else {
                   // Fenced, so nobody can use them; they go when the long kernel is done.
                   outcome.failures.push_back(absl::StrCat(
                       self->slots_.size(), " handles of ", self->context_->Describe(),
                       ": still in use by work in flight after ",
                       absl::FormatDuration(self->finish_), "; fenced, unloaded when it ends"));
                   std::vector<Handle*> later;
                   for (const auto& [slot, incarnation] : self->slots_) {
                     Handle* handle = self->context_->AtSlot(slot);
                     if (handle != nullptr && handle->incarnation == incarnation) {
                       later.push_back(handle);
                     }
                   }
                   self->context_->UnloadUnheld(std::move(later));
                 }
                 self->Done();
               });
}

void ContextDrain::Kill(std::string why) {
  if (done()) return;
  if (!killed_) {
    killed_ = true;
    outcome_.failures.push_back(
        absl::StrCat("host of ", context_->Describe(), ": ", why, "; killed"));
    if (DeviceHost* host = context_->host(); host != nullptr) host->Kill(why);
  }
  Arm(core_->options.limits.kill_verify, [this] {
    outcome_.stuck = true;
    outcome_.failures.push_back(absl::StrCat(
        "host of ", context_->Describe(), ": STUCK, not gone ",
        absl::FormatDuration(core_->options.limits.kill_verify), " after it was killed"));
    Done();
  });
}

// The host has nothing left to do but exit.
void ContextDrain::WatchExit() {
  Arm(core_->options.limits.kill_verify, [this] { Kill("did not exit"); });
}

void ContextDrain::OnContextExit(const HostExit& exit) {
  if (done()) return;
  if (kind_ == Kind::kClear) {
    outcome_.lost = !superseded_;
    Done();
    return;
  }
  if (kind_ == Kind::kExit) return Done();
  if (!was_alive_) {
    context_->MoveTo(ContextState::kReleasing);
    context_->MoveTo(ContextState::kReleased);
  } else if (stage_ == Stage::kReleasing) {
    if (!torn_down_) {
      // It died half-way: what it still held, by the labels it had told.
      for (const std::string& label : context_->Labels()) {
        outcome_.failures.push_back(
            absl::StrCat(label, ": the host ", exit.what, " before it was released"));
      }
    }
    context_->MoveTo(ContextState::kReleased);
  } else {
    outcome_.lost = true;
    context_->MoveTo(ContextState::kLost);
  }
  Done();
}

void ContextDrain::OnContextLost() {
  if (done() || kind_ != Kind::kClear) return;
  outcome_.lost = true;
  Done();
}

void ContextDrain::Supersede() {
  if (done() || kind_ != Kind::kClear) return;
  superseded_ = true;
  waiting_.clear();
  core_->deps.executor->Cancel(timer_);
}

void ContextDrain::OnSupersederDone() {
  if (superseded_ && !done()) Done();
}

void ContextDrain::Abandon() {
  on_change_ = nullptr;
  on_released_ = nullptr;
  on_done_ = nullptr;
}

void ContextDrain::Done() {
  core_->deps.executor->Cancel(timer_);
  MoveTo(Stage::kDone);
  waiting_.clear();
  core_->deps.executor->Post([self = shared_from_this()] {
    // They keep whoever keeps this drain: nothing of it would ever go.
    auto on_done = std::move(self->on_done_);
    self->on_done_ = nullptr;
    self->on_change_ = nullptr;
    self->on_released_ = nullptr;
    on_done();
  });
}

}  // namespace kcache::core
