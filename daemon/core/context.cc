#include "daemon/core/context.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::core {
namespace {

bool Allowed(ContextState from, ContextState to) {
  switch (from) {
    case ContextState::kCreating:
      return to == ContextState::kAlive || to == ContextState::kDraining ||
             to == ContextState::kLost;
    case ContextState::kAlive:
      return to == ContextState::kDraining || to == ContextState::kLost;
    case ContextState::kDraining:
      return to == ContextState::kReleasing || to == ContextState::kLost;
    case ContextState::kReleasing:
      return to == ContextState::kReleased;
    case ContextState::kReleased:
    case ContextState::kLost:
      return false;
  }
  return false;
}

TokenAuthority MakeAuthority(const std::string& key, const std::string& instance) {
  auto authority = TokenAuthority::Create(key, instance);
  return *std::move(authority);  // key and instance have fixed lengths
}

}  // namespace

std::string_view Name(ContextState state) {
  switch (state) {
    case ContextState::kCreating:
      return "CREATING";
    case ContextState::kAlive:
      return "ALIVE";
    case ContextState::kDraining:
      return "DRAINING";
    case ContextState::kReleasing:
      return "RELEASING";
    case ContextState::kReleased:
      return "RELEASED";
    case ContextState::kLost:
      return "LOST";
  }
  return "?";
}

Context::Context(Identity identity, const v1::DeviceInfo& device, const Options* options,
                 const Dependencies* deps, HandleCounters* counters, ContextOwner* owner)
    : identity_(std::move(identity)),
      info_(device),
      options_(options),
      deps_(deps),
      owner_(owner),
      token_key_(deps->random->Bytes(kTokenKeyBytes)),
      authority_(MakeAuthority(token_key_, identity_.instance)),
      handles_(counters),
      idle_since_(deps->clock->Now()) {
  RecordState();
}

Context::~Context() = default;

v1::ContextRef Context::ref() const {
  v1::ContextRef ref;
  ref.set_context_id(identity_.id);
  *ref.mutable_device() = identity_.device.ToProto();
  ref.set_generation(identity_.generation);
  return ref;
}

std::string Context::Describe() const {
  return absl::StrCat(identity_.device.ToString(), " of ", identity_.domain.name, " (generation ",
                      identity_.generation, ")");
}

void Context::MoveTo(ContextState next) {
  if (!Allowed(state_, next)) {
    deps_->events->Emit("bug", absl::StrCat(Describe(), ": ", AbslView(Name(state_)), " to ",
                                            AbslView(Name(next)), " is no transition"),
                        {});
    return;
  }
  state_ = next;
  RecordState();
}

void Context::RecordState() const {
  if (deps_->history == nullptr) return;
  deps_->history->Record("context", {{"context", identity_.id},
                                     {"state", Name(state_)},
                                     {"device", identity_.device.ToString()},
                                     {"domain", identity_.domain.name},
                                     {"generation", identity_.generation}});
}

void Context::Start(absl::Duration backoff) {
  start_pending_ = true;
  auto self = shared_from_this();
  if (backoff <= absl::ZeroDuration()) {
    Launch();
  } else {
    deps_->executor->RunAfter(backoff, [self] { self->Launch(); });
  }
}

void Context::Launch() {
  if (state_ != ContextState::kCreating) {
    // Drained before its host was started: there is nothing to release.
    start_pending_ = false;
    OnExited({.verified = true, .expected = true, .what = "was never started", .last_words = ""});
    return;
  }
  const Limits& limits = options_->limits;
  HostSpec spec;
  spec.family = std::string(identity_.device.family());
  spec.device = info_;
  spec.uid = identity_.domain.uid;
  spec.gid = identity_.domain.gid;
  spec.domain = identity_.domain.name;
  v1::OpenContextRequest& open = spec.open;
  *open.mutable_context() = ref();
  open.set_instance(identity_.instance);
  open.set_token_key(token_key_);
  open.set_peer_uid(identity_.domain.uid);
  open.set_check_peer_uid(options_->domain_policy == DomainPolicy::kUid ||
                          options_->domain_policy == DomainPolicy::kSession);
  v1::HostLimits* host = open.mutable_limits();
  host->set_max_queues_per_session(limits.max_queues_per_session);
  host->set_max_commands_in_flight(limits.max_commands_in_flight);
  host->set_max_device_bytes_per_session(limits.max_device_bytes_per_session);
  host->set_max_device_bytes(limits.max_device_bytes_per_domain);
  host->set_max_pinned_bytes_per_session(limits.max_pinned_bytes_per_session);
  host->set_max_buffers_per_session(limits.max_buffers_per_session);
  host->set_max_message_bytes(limits.max_message_bytes);
  open.set_stalled_kernel_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(limits.stalled_kernel)));
  auto self = shared_from_this();
  deps_->hosts->Start(
      std::move(spec), this, [self](absl::StatusOr<std::unique_ptr<DeviceHost>> host) {
        self->start_pending_ = false;
        if (!host.ok()) {
          self->loss_ = Annotate(host.status(), "while starting the host of " + self->Describe());
          if (ReasonOf(self->loss_) == v1::ERROR_REASON_UNSPECIFIED) {
            // It died before it could say why.
            self->loss_ = MakeError(v1::DEVICE_LOST, StdView(self->loss_.message()));
          }
          self->OnExited({.verified = true,
                          .expected = self->state_ != ContextState::kCreating,
                          .what = std::string(StdView(self->loss_.message())),
                          .last_words = ""});
          return;
        }
        self->host_ = *std::move(host);
        if (self->state_ != ContextState::kCreating) {
          // Destroyed while it was starting: nobody has used it, so it may simply end.
          self->host_->Kill("destroyed while it was starting");
          return;
        }
        self->MoveTo(ContextState::kAlive);
        self->Touch();
        self->deps_->events->Emit(
            "context-alive", self->Describe() + " is up",
            {{"context", std::to_string(self->id())}, {"pid", std::to_string(self->host_->pid())}});
        self->AnswerAlive(absl::OkStatus());
        self->PumpLoads();
      });
}

void Context::WhenAlive(Function<void(absl::Status)> waiter) {
  waiting_alive_.push_back(std::move(waiter));
}

void Context::AnswerAlive(const absl::Status& status) {
  std::vector<Function<void(absl::Status)>> waiting = std::move(waiting_alive_);
  waiting_alive_.clear();
  for (auto& waiter : waiting) {
    deps_->executor->Post([waiter = std::move(waiter), status]() mutable { waiter(status); });
  }
}

void Context::BeginDraining(const absl::Status& why) {
  MoveTo(ContextState::kDraining);
  AnswerAlive(why);
  // A build that overlaps a destroy is never installed; what it built goes with the context.
  for (Handle* handle : std::vector<Handle*>([this] {
         std::vector<Handle*> loading;
         handles_.ForEach([&](const Handle& one) {
           if (!one.waiters.empty()) loading.push_back(handles_.AtSlot(one.slot));
         });
         return loading;
       }())) {
    std::vector<HandleWaiter> waiters = std::move(handle->waiters);
    handle->waiters.clear();
    for (HandleWaiter& waiter : waiters) {
      deps_->executor->Post(
          [waiter = std::move(waiter), why]() mutable { waiter(why, nullptr); });
    }
  }
  handles_.DoomAll();
  // One that has not got as far as to be killed by a drain ends now, however long its driver takes.
  if (start_pending_) deps_->hosts->Abandon(this);
}

Handle* Context::FindReady(const Digest& key) {
  Handle* handle = handles_.Find(key);
  return handle != nullptr && handle->state == HandleState::kReady ? handle : nullptr;
}

Handle* Context::AcquireHandle(const Digest& key, const ArtifactPtr& artifact,
                               const std::string& entry, const v1::Specialization& specialization,
                               HandleWaiter waiter) {
  if (Handle* ready = FindReady(key); ready != nullptr) return ready;
  Handle* handle = handles_.Find(key);
  if (handle == nullptr) {
    v1::KernelInfo kernel;
    bool known = artifact->artifact.kernels().empty();
    std::vector<std::string> entries;
    for (const v1::KernelInfo& one : artifact->artifact.kernels()) {
      entries.push_back(one.entry());
      if (one.entry() == entry) {
        kernel = one;
        known = true;
      }
    }
    if (!known) {
      absl::Status unknown =
          MakeError(v1::UNKNOWN_ENTRY,
                    absl::StrCat("the program has no entry point ", AbslView(Quoted(entry)),
                                 "; it has ", absl::StrJoin(entries, ", ")));
      deps_->executor->Post(
          [waiter = std::move(waiter), unknown]() mutable { waiter(unknown, nullptr); });
      return nullptr;
    }
    kernel.set_entry(entry);
    if (handles_.live() >= kMaxHandles) {
      if (Handle* old = handles_.DoomLeastRecentlyUsed(); old != nullptr) UnloadUnheld({old});
    }
    handle = handles_.Begin(key, artifact, std::move(kernel), specialization);
  }
  handle->waiters.push_back(std::move(waiter));
  if (!load_pump_posted_) {
    // Behind what is queued now: a batch of acquires becomes one request.
    load_pump_posted_ = true;
    deps_->executor->Post([self = shared_from_this()] {
      self->load_pump_posted_ = false;
      self->PumpLoads();
    });
  }
  return nullptr;
}

void Context::PumpLoads() {
  if (state_ != ContextState::kAlive || host_ == nullptr) return;
  v1::LoadRequest request;
  while (handles_.TakeLoad(&request)) {
    auto sent = std::make_shared<v1::LoadRequest>(request);
    sent->clear_artifact();
    host_->Load(std::move(request), [self = shared_from_this(),
                                     sent](absl::StatusOr<v1::LoadReply> reply) {
      if (absl::IsUnavailable(reply.status())) {
        // The host is dead or as good as that: OnExited answers everybody, with the better reason.
        if (self->host_ != nullptr) self->host_->Kill("does not answer");
        return;
      }
      if (self->state_ == ContextState::kLost) return;  // its waiters have been answered
      HandleCache::Loaded loaded = self->handles_.OnLoaded(*sent, reply);
      for (HandleCall& call : loaded.calls) call.waiter(call.status, call.handle);
      if (!loaded.stale.empty() && self->state_ == ContextState::kAlive) {
        self->UnloadUnheld(std::move(loaded.stale));
      }
      self->PumpLoads();
    });
    request.Clear();
  }
}

void Context::UnloadUnheld(std::vector<Handle*> handles) {
  if (host_ == nullptr || handles.empty()) return;
  v1::FenceRequest fence;
  v1::UnloadRequest unload;
  std::vector<std::pair<uint32_t, uint32_t>> slots;
  for (const Handle* handle : handles) {
    v1::SlotRef* slot = fence.mutable_slots()->add_slots();
    slot->set_slot(handle->slot);
    slot->set_incarnation(handle->incarnation);
    *unload.add_slots() = *slot;
    slots.emplace_back(handle->slot, handle->incarnation);
  }
  // A session that released its lease may still have launches under way to the host.
  FillPositions(nullptr, &fence);
  fence.set_wait_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(options_->limits.fence_wait)));
  unload.set_finish_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(options_->limits.finish)));
  auto self = shared_from_this();
  host_->Fence(std::move(fence), [self, slots, unload = std::move(unload)](
                                     absl::StatusOr<v1::FenceReply> fenced) mutable {
    if (!fenced.ok() || self->host_ == nullptr) return;  // the host's exit releases them
    self->host_->Unload(std::move(unload), [self, slots](absl::StatusOr<v1::UnloadReply> reply) {
      if (!reply.ok()) return;
      if (!reply->finished()) {
        // A long kernel still runs on one of them: again when it may be done.
        self->deps_->executor->RunAfter(self->options_->limits.finish, [self, slots] {
          std::vector<Handle*> again;
          for (const auto& [slot, incarnation] : slots) {
            Handle* handle = self->handles_.AtSlot(slot);
            if (handle != nullptr && handle->incarnation == incarnation) again.push_back(handle);
          }
          if (self->state_ == ContextState::kAlive) self->UnloadUnheld(std::move(again));
        });
        return;
      }
      self->ForgetUnloaded(slots);
    });
  });
}

void Context::ForgetUnloaded(const std::vector<std::pair<uint32_t, uint32_t>>& slots) {
  for (const auto& [slot, incarnation] : slots) {
    Handle* handle = handles_.AtSlot(slot);
    if (handle != nullptr && handle->incarnation == incarnation) handles_.Forget(handle);
  }
}

v1::ContextInfo Context::IntroductionFor(uint64_t session_id) {
  introduced_.insert(session_id);
  v1::ContextInfo info;
  *info.mutable_context() = ref();
  info.set_execution_target(host_->execution_target());
  info.set_execution_token(authority_
                               .SignSession({.context_id = identity_.id,
                                             .generation = identity_.generation,
                                             .session_id = session_id})
                               .str());
  *info.mutable_device() = info_;
  return info;
}

std::string Context::LeaseToken(uint64_t session_id, uint32_t slot, uint32_t incarnation) const {
  return authority_
      .SignLease({.session = {.context_id = identity_.id,
                              .generation = identity_.generation,
                              .session_id = session_id},
                  .slot = slot,
                  .incarnation = incarnation})
      .str();
}

void Context::RemoveHolder(uint64_t session_id) {
  auto found = holders_.find(session_id);
  if (found == holders_.end()) return;
  --leases_;
  if (--found->second == 0) holders_.erase(found);
  if (holders_.empty()) Touch();
}

void Context::NotePositions(
    uint64_t session_id,
    const google::protobuf::RepeatedPtrField<v1::QueuePosition>& positions) {
  if (!introduced_.contains(session_id)) return;
  if (deps_->history != nullptr) {
    std::string text;
    for (const v1::QueuePosition& one : positions) {
      absl::StrAppend(&text, one.queue(), ":", one.sequence(), ",");
    }
    deps_->history->Record("announced", {{"session", session_id},
                                         {"context", identity_.id},
                                         {"positions", text}});
  }
  for (const v1::QueuePosition& one : positions) {
    if (one.queue() >= options_->limits.max_queues_per_session) continue;
    uint64_t& known = positions_[session_id][one.queue()];
    known = std::max(known, one.sequence());
  }
}

void Context::FillPositions(const absl::flat_hash_set<uint64_t>* sessions,
                            v1::FenceRequest* fence) const {
  for (const auto& [session, queues] : positions_) {
    if (sessions != nullptr && !sessions->contains(session)) continue;
    v1::SessionPositions* until = fence->add_admit_until();
    until->set_session_id(session);
    for (const auto& [queue, sequence] : queues) {
      v1::QueuePosition* position = until->add_positions();
      position->set_queue(queue);
      position->set_sequence(sequence);
    }
  }
}

void Context::EndSession(uint64_t session_id, Function<void()> done) {
  introduced_.erase(session_id);
  positions_.erase(session_id);
  Touch();
  if (host_ == nullptr) {
    deps_->executor->Post(std::move(done));
    return;
  }
  v1::EndSessionRequest request;
  request.set_session_id(session_id);
  request.set_finish_ms(
      static_cast<uint64_t>(absl::ToInt64Milliseconds(options_->limits.finish)));
  v1::FenceRequest fence;
  fence.set_session_id(session_id);
  auto self = shared_from_this();
  host_->Fence(std::move(fence), [self, request, done = std::move(done)](
                                     absl::StatusOr<v1::FenceReply> fenced) mutable {
    done();
    if (!fenced.ok() || self->host_ == nullptr) return;
    self->host_->EndSession(request, [self](absl::StatusOr<v1::EndSessionReply> reply) {
      if (!reply.ok()) return;
      if (reply->swept_buffers() != 0 || !reply->failures().empty()) {
        self->deps_->events->Emit(
            "session-swept",
            absl::StrCat("swept ", reply->swept_buffers(), " buffers (", reply->swept_bytes(),
                         " bytes) that a session left in ", self->Describe(),
                         reply->failures().empty()
                             ? ""
                             : absl::StrCat("; failures: ", absl::StrJoin(reply->failures(), "; "))),
            {});
      }
    });
  });
}

std::vector<std::string> Context::Labels() const {
  std::vector<std::pair<uint64_t, std::string>> ordered;
  for (const auto& [label, order] : labels_) ordered.emplace_back(order, label);
  std::sort(ordered.rbegin(), ordered.rend());
  std::vector<std::string> names;
  for (auto& [order, label] : ordered) names.push_back(std::move(label));
  return names;
}

bool Context::Idle() const {
  return state_ == ContextState::kAlive && holders_.empty() && usage_.buffers() == 0 &&
         usage_.scratch_bytes() == 0 && usage_.commands_in_flight() == 0 && waiting_alive_.empty();
}

void Context::Touch() { idle_since_ = deps_->clock->Now(); }

void Context::OnHeartbeat(const v1::HostUsage& usage) {
  if (usage.launches() != usage_.launches() || usage.buffers() != usage_.buffers()) Touch();
  usage_ = usage;
  owner_->OnContextUsage(this);
}

void Context::OnLabel(const v1::LabelChange& change) {
  if (change.acquired()) {
    labels_.emplace(change.label(), ++label_order_);
    return;
  }
  auto found = labels_.find(change.label());
  if (found != labels_.end()) labels_.erase(found);
}

void Context::OnLost(const v1::ContextLost& lost) {
  auto self = shared_from_this();  // the owner may drop the last other reference
  if (loss_.ok()) loss_ = FromProto(lost.error());  // the first reason wins
  if (loss_.ok()) loss_ = MakeError(v1::DEVICE_LOST, Describe() + " is lost, its host says");
  if (lost.physical()) owner_->OnPhysicalLoss(this, loss_);
  owner_->OnContextLost(this);
}

void Context::OnSecurityEvent(const v1::SecurityEvent& event) {
  deps_->events->Emit("refused-by-host", absl::StrCat(event.what(), " at ", Describe()),
                      {{"uid", std::to_string(event.uid())},
                       {"pid", std::to_string(event.pid())},
                       {"session", std::to_string(event.session_id())}});
}

void Context::OnUnresponsive(std::string_view why) {
  if (loss_.ok()) loss_ = MakeError(v1::DEVICE_LOST, why);
}

void Context::Abandon(const absl::Status& why) {
  AnswerAlive(why);
  for (HandleCall& call : handles_.Abandon(why)) {
    deps_->executor->Post(
        [call = std::move(call)]() mutable { call.waiter(call.status, nullptr); });
  }
}

void Context::OnExited(const HostExit& exit) {
  auto self = shared_from_this();  // the owner may drop the last other reference
  if (loss_.ok() && !exit.expected) {
    loss_ = MakeError(v1::DEVICE_LOST,
                      absl::StrCat("the host of ", Describe(), " ", exit.what,
                                   exit.last_words.empty() ? "" : "; last words: ",
                                   exit.last_words));
  }
  Abandon(loss_.ok() ? MakeError(v1::DEVICE_DESTROYED, Describe() + " was destroyed") : loss_);
  // Its own call into us is still on the stack.
  deps_->executor->Post([host = std::move(host_)]() mutable { host.reset(); });
  owner_->OnContextExit(this, exit);
}

}  // namespace kcache::core
