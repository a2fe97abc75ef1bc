#include "backends/sdk/host.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/sdk/recorded_context.h"
#include "backends/sdk/session_engine.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend {
namespace {

constexpr size_t kMaxQueuedEvents = 65536;
constexpr int kMaxSessionUsages = 1024;  // in a heartbeat
constexpr uint64_t kReattachFinishMs = 2000;

Deadline After(uint64_t milliseconds) {
  return std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
}

std::string SlotsText(const v1::FenceReply& reply) {
  std::string text;
  for (const v1::SlotRef& slot : reply.fenced()) {
    absl::StrAppend(&text, slot.slot(), ".", slot.incarnation(), ",");
  }
  return text;
}

v1::HostEvent LabelEvent(v1::LabelChange change) {
  v1::HostEvent event;
  *event.mutable_label() = std::move(change);
  return event;
}

}  // namespace

Host::Host(Family* family, const History* history,
           std::function<void(const absl::Status&)> on_lost)
    : family_(family),
      history_(history),
      on_lost_(std::move(on_lost)),
      ledger_([this](v1::LabelChange change) { Push(LabelEvent(std::move(change))); }) {}

Host::~Host() {
  // Its thread uses everything else.
  watchdog_.reset();
}

// ---- control ------------------------------------------------------------------------------------

v1::OpenContextReply Host::OpenContext(const v1::OpenContextRequest& request) {
  v1::OpenContextReply reply;
  auto fail = [&reply](const absl::Status& why) {
    *reply.mutable_error() = ToProto(why);
    return reply;
  };
  if (context_ != nullptr) return fail(MakeError(v1::BAD_REQUEST, "the context is open already"));
  auto authority = TokenAuthority::Create(request.token_key(), request.instance());
  if (!authority.ok()) return fail(authority.status());
  ContextOptions options;
  options.index = request.context().device().index();
  const std::string& framework = request.context().device().framework();
  if (size_t slash = framework.find('/'); slash != std::string::npos) {
    options.variant = framework.substr(slash + 1);
  }
  auto context = family_->OpenContext(options);
  if (!context.ok()) return fail(context.status());
  ref_ = request.context();
  limits_ = request.limits();
  authority_ = std::make_unique<TokenAuthority>(*std::move(authority));
  peer_uid_ = request.peer_uid();
  check_peer_uid_ = request.check_peer_uid();
  context_ = *std::move(context);
  if (history_ != nullptr) {
    history_->Record("host", {{"instance", ToHex(request.instance())},
                              {"context", ref_.context_id()},
                              {"generation", ref_.generation()}});
    context_ = std::make_unique<RecordedContext>(std::move(context_), history_);
  }
  ledger_.set_most_device_bytes(limits_.max_device_bytes());
  ledger_.Add("context", 0, [this] { return context_->Close(); });
  slots_ = std::make_unique<SlotTable>(context_.get(), &ledger_, history_);
  op_cache_ = std::make_unique<OpCache>(context_.get(), &ledger_, [this](ScratchBlock old) {
    AfterInFlight([this, id = old.ledger] { ledger_.ReleaseOne(id).IgnoreError(); });
  });
  *reply.mutable_device() = context_->device();
  if (request.stalled_kernel_ms() > 0) {
    watchdog_ = std::make_unique<StallWatchdog>(
        std::chrono::milliseconds(request.stalled_kernel_ms()), [this] { return Progress(); },
        [this](const absl::Status& why) { Lost(why); });
  }
  open_.store(true);
  return reply;
}

absl::StatusOr<v1::LoadReply> Host::Load(const v1::LoadRequest& request) {
  if (!open_.load()) return absl::FailedPreconditionError("Load before OpenContext");
  Admission admitted(&gate_);
  if (!admitted) return MakeError(v1::DEVICE_DRAINING, "the context is fenced");
  v1::LoadReply reply = slots_->Load(request);
  for (const v1::LoadResult& result : reply.results()) {
    if (result.has_error()) NoteIfLost(FromProto(result.error()));
  }
  return reply;
}

absl::StatusOr<v1::FenceReply> Host::Fence(const v1::FenceRequest& request) {
  v1::FenceReply reply;
  if (!open_.load()) {
    gate_.Close();
    return reply;
  }
  AwaitPositions(request);
  switch (request.scope_case()) {
    case v1::FenceRequest::kContext:
      gate_.Close();
      for (const auto& slot : slots_->Loaded()) {
        slot->gate.Close();
        v1::SlotRef* fenced = reply.add_fenced();
        fenced->set_slot(slot->number);
        fenced->set_incarnation(slot->incarnation);
      }
      break;
    case v1::FenceRequest::kSlots:
      for (const v1::SlotRef& ref : request.slots().slots()) {
        if (auto slot = slots_->Find(ref.slot(), ref.incarnation()); slot != nullptr) {
          slot->gate.Close();
        }
        // Not loaded (any more): nothing is admitted under it either.
        *reply.add_fenced() = ref;
      }
      break;
    case v1::FenceRequest::kSessionId: {
      std::shared_ptr<SessionEngine> session;
      {
        MutexLock lock(&mutex_);
        ended_[request.session_id()] = true;
        auto found = sessions_.find(request.session_id());
        if (found != sessions_.end()) session = found->second;
      }
      if (session != nullptr) session->gate()->Close();
      break;
    }
    case v1::FenceRequest::SCOPE_NOT_SET:
      return MakeError(v1::BAD_REQUEST, "Fence without a scope");
  }
  for (const auto& session : Sessions()) *reply.add_admitted() = session->Positions();
  if (history_ != nullptr) {
    history_->Record("fenced", {{"operation", ToHex(request.operation_id())},
                                {"all", request.context() ? 1u : 0u},
                                {"session", request.session_id()},
                                {"slots", SlotsText(reply)}});
  }
  return reply;
}

// Commands that their session has announced are still let in, while they can still come.
void Host::AwaitPositions(const v1::FenceRequest& request) {
  const Deadline deadline = After(request.wait_ms());
  MutexLock lock(&mutex_);
  while (!Reached(request)) {
    if (!progress_.WaitUntil(&mutex_, deadline)) return;
  }
}

bool Host::Reached(const v1::FenceRequest& request) const ABSL_NO_THREAD_SAFETY_ANALYSIS {
  for (const v1::SessionPositions& until : request.admit_until()) {
    auto found = sessions_.find(until.session_id());
    if (found == sessions_.end()) {
      // Its stream is still on the way here, with what it announced; one that has ended sends no more.
      const bool announced =
          std::any_of(until.positions().begin(), until.positions().end(),
                      [](const v1::QueuePosition& position) { return position.sequence() != 0; });
      if (announced && !ended_.contains(until.session_id())) return false;
      continue;
    }
    if (found->second->detached() || found->second->gate()->closed()) continue;
    for (const v1::QueuePosition& position : until.positions()) {
      if (found->second->Admitted(position.queue()) < position.sequence()) return false;
    }
  }
  return true;
}

void Host::NoteProgress() {
  MutexLock lock(&mutex_);
  progress_.NotifyAll();
}

absl::StatusOr<v1::UnloadReply> Host::Unload(const v1::UnloadRequest& request) {
  if (!open_.load()) return absl::FailedPreconditionError("Unload before OpenContext");
  v1::UnloadReply reply;
  const Deadline deadline = After(request.finish_ms());
  std::vector<std::shared_ptr<Slot>> slots;
  for (const v1::SlotRef& ref : request.slots()) {
    auto slot = slots_->Find(ref.slot(), ref.incarnation());
    if (slot == nullptr) continue;  // gone already: a second unload is a no-op
    if (!slot->gate.closed()) {
      return MakeError(v1::BAD_REQUEST, absl::StrCat("slot ", ref.slot(), " is not fenced"));
    }
    slots.push_back(std::move(slot));
  }
  reply.set_finished(true);
  for (const auto& session : Engines()) {
    for (const auto& queue : session->Queues()) {
      const bool used = std::any_of(slots.begin(), slots.end(), [&](const auto& slot) {
        return queue->UsesSlot(slot->number);
      });
      if (used && !queue->WaitIdle(deadline)) reply.set_finished(false);
    }
  }
  if (!reply.finished()) return reply;
  // Newest first, whatever order was asked for.
  std::sort(slots.begin(), slots.end(),
            [](const auto& a, const auto& b) { return a->ledger > b->ledger; });
  for (const auto& slot : slots) {
    absl::Status status = slots_->Unload(slot);
    if (status.ok()) {
      reply.set_unloaded(reply.unloaded() + 1);
    } else {
      reply.add_failures(absl::StrCat("kernel ", slot->info.entry(), ": ",
                                      std::string(status.message())));
      NoteIfLost(status);
    }
  }
  return reply;
}

absl::StatusOr<v1::EndSessionReply> Host::EndSession(const v1::EndSessionRequest& request) {
  std::shared_ptr<SessionEngine> session;
  {
    MutexLock lock(&mutex_);
    ended_[request.session_id()] = true;
    auto found = sessions_.find(request.session_id());
    if (found == sessions_.end()) return v1::EndSessionReply();
    session = std::move(found->second);
    sessions_.erase(found);
    leaving_.push_back(session);
  }
  session->gate()->Close();
  session->sink()->Close(MakeError(v1::SESSION_UNKNOWN, "the session has ended"));
  return Sweep(std::move(session), After(request.finish_ms()));
}

// Sweeps one of `leaving_`, and lets those go that have nothing in flight any more.
v1::EndSessionReply Host::Sweep(std::shared_ptr<SessionEngine> engine, Deadline deadline) {
  v1::EndSessionReply reply;
  {
    MutexLock lock(&mutex_);
    if (torn_down_) return reply;
    ++sweeps_;
  }
  reply = engine->Sweep(deadline);
  engine = nullptr;
  std::vector<std::shared_ptr<SessionEngine>> finished;  // ends threads: without the lock
  MutexLock lock(&mutex_);
  --sweeps_;
  progress_.NotifyAll();
  auto busy = std::partition(leaving_.begin(), leaving_.end(),
                             [](const auto& one) { return one->in_flight() == 0; });
  if (sweeps_ == 0) {
    finished.assign(leaving_.begin(), busy);
    leaving_.erase(leaving_.begin(), busy);
  }
  return reply;
}

absl::StatusOr<v1::TeardownReply> Host::Teardown(const v1::TeardownRequest& request) {
  v1::TeardownReply reply;
  gate_.Close();
  reply.set_finished(AllIdle(After(request.finish_ms())));
  if (!reply.finished()) return reply;  // the daemon ends this process
  for (const auto& session : Engines()) {
    for (const auto& queue : session->Queues()) {
      if (absl::Status closed = queue->Close(); !closed.ok()) {
        reply.add_failures(absl::StrCat("queue ", queue->number(), " of session ", session->id(),
                                        ": ", std::string(closed.message())));
      } else {
        reply.add_released(absl::StrCat("queue ", queue->number(), " of session ", session->id()));
      }
    }
  }
  ReleaseReport report = ledger_.ReleaseAll();
  for (std::string& label : report.released) reply.add_released(std::move(label));
  for (std::string& failure : report.failures) reply.add_failures(std::move(failure));
  return reply;
}

bool Host::AllIdle(Deadline deadline) {
  bool idle = true;
  for (const auto& session : Engines()) {
    for (const auto& queue : session->Queues()) idle &= queue->WaitIdle(deadline);
  }
  // What a sweep is about to give back must not go a second time, or after the context.
  MutexLock lock(&mutex_);
  while (sweeps_ > 0) {
    if (!progress_.WaitUntil(&mutex_, deadline)) return false;
  }
  torn_down_ = idle;
  return idle;
}

// ---- events -------------------------------------------------------------------------------------

void Host::Push(v1::HostEvent event) {
  MutexLock lock(&events_mutex_);
  if (events_.size() >= kMaxQueuedEvents) events_.pop_front();  // the mirror is for reports only
  events_.push_back(std::move(event));
  events_changed_.NotifyAll();
}

void Host::EndEvents() {
  MutexLock lock(&events_mutex_);
  closing_ = true;
  events_changed_.NotifyAll();
}

bool Host::NextEvents(std::chrono::milliseconds timeout, std::vector<v1::HostEvent>* events) {
  const Deadline deadline = std::chrono::steady_clock::now() + timeout;
  bool serving = true;
  {
    MutexLock lock(&events_mutex_);
    while (events_.empty() && !closing_) {
      if (!events_changed_.WaitUntil(&events_mutex_, deadline)) break;
    }
    events->assign(events_.begin(), events_.end());
    events_.clear();
    serving = !closing_;
  }
  if (lost()) gate_.Close();  // whoever was inside when the context died leaves before that is told
  return serving;
}

v1::HostUsage Host::Usage() const {
  v1::HostUsage usage;
  if (!open_.load()) return usage;
  usage.set_device_bytes(ledger_.device_bytes());
  uint64_t buffers = 0, in_flight = 0;
  const auto sessions = Sessions();
  for (const auto& session : Engines()) {
    buffers += session->buffers();
    in_flight += session->in_flight();
    if (usage.per_session_size() >= kMaxSessionUsages) continue;
    if (v1::SessionUsage one = session->Usage(); one.buffers() != 0) {
      *usage.add_per_session() = std::move(one);
    }
  }
  usage.set_buffers(buffers);
  usage.set_sessions(sessions.size());
  usage.set_handles(slots_->handles());
  usage.set_modules(slots_->modules());
  usage.set_launches(launches_.load(std::memory_order_relaxed));
  usage.set_commands_in_flight(in_flight);
  usage.set_refused_commands(refused_.load(std::memory_order_relaxed));
  usage.set_bad_tokens(bad_tokens_.load(std::memory_order_relaxed));
  usage.set_jit_in_host(context_->late_compiles());
  usage.set_scratch_bytes(op_cache_->scratch_bytes());
  return usage;
}

void Host::Security(uint64_t session, const ExecutionPeer& peer, std::string what) {
  bad_tokens_.fetch_add(1, std::memory_order_relaxed);
  v1::HostEvent event;
  v1::SecurityEvent* security = event.mutable_security();
  security->set_session_id(session);
  security->set_uid(peer.uid);
  security->set_pid(peer.pid);
  security->set_what(std::move(what));
  Push(std::move(event));
}

bool Host::NoteIfLost(const absl::Status& status) {
  const v1::ErrorReason reason = ReasonOf(status);
  if (reason != v1::DEVICE_LOST && reason != v1::KERNEL_FAULT) return false;
  Lost(status);
  return true;
}

std::vector<StallWatchdog::QueueProgress> Host::Progress() const {
  std::vector<StallWatchdog::QueueProgress> progress;
  for (const auto& session : Engines()) {
    for (const auto& queue : session->Queues()) {
      progress.push_back({session->id(), queue->number(), queue->busy(), queue->completed()});
    }
  }
  return progress;
}

void Host::Lost(const absl::Status& why) {
  if (lost_.exchange(true)) return;  // the first reason wins
  gate_.Shut();
  v1::HostEvent event;
  *event.mutable_lost()->mutable_error() = ToProto(why);
  event.mutable_lost()->set_physical(DetailsOf(why).contains("physical"));
  Push(std::move(event));
  on_lost_(why);
}

// ---- execution ----------------------------------------------------------------------------------

absl::StatusOr<std::shared_ptr<SessionEngine>> Host::Attach(const v1::AttachSession& attach,
                                                            const ExecutionPeer& peer,
                                                            std::shared_ptr<ReplySink> sink) {
  if (!open_.load()) return MakeError(v1::NOT_READY, "the context is not open yet");
  if (check_peer_uid_ && peer.uid != peer_uid_) {
    Security(attach.session_id(), peer, "foreign uid");
    return MakeError(v1::PERMISSION_DENIED,
                     absl::StrCat("this host serves uid ", peer_uid_, ", not uid ", peer.uid));
  }
  const SessionIdentity identity{.context_id = ref_.context_id(),
                                 .generation = ref_.generation(),
                                 .session_id = attach.session_id()};
  const bool same_life = attach.context().context_id() == ref_.context_id() &&
                         attach.context().generation() == ref_.generation();
  if (!same_life || !authority_->VerifySession(identity, attach.token())) {
    Security(attach.session_id(), peer, "bad execution token");
    return MakeError(v1::PERMISSION_DENIED, "the execution token is not valid here");
  }
  if (gate_.closed()) return MakeError(v1::DEVICE_DRAINING, "the context is being released");
  auto session = std::make_shared<SessionEngine>(this, attach.session_id(), peer, std::move(sink));
  std::shared_ptr<SessionEngine> old;
  bool taken = false;
  {
    MutexLock lock(&mutex_);
    if (ended_.contains(attach.session_id())) {
      return MakeError(v1::SESSION_UNKNOWN, "the session has ended");
    }
    std::shared_ptr<SessionEngine>& slot = sessions_[attach.session_id()];
    taken = slot != nullptr && !slot->detached();
    if (!taken) old = std::exchange(slot, session);
    if (old != nullptr) leaving_.push_back(old);
  }
  if (taken) {
    // Whoever has captured a token of the same user's; the library opens one stream at a time.
    Security(attach.session_id(), peer, "a second stream of a session");
    return MakeError(v1::PERMISSION_DENIED, "this session has an execution stream here already");
  }
  if (history_ != nullptr) history_->Record("attached", {{"session", attach.session_id()}});
  if (old != nullptr) {
    // Its stream broke, and with it went all knowledge of how far it had got: it starts anew.
    old->gate()->Close();
    Sweep(std::move(old), After(kReattachFinishMs));
  }
  return session;
}

void Host::Detach(SessionEngine* session) {
  session->MarkDetached();
  NoteProgress();
}

std::vector<std::shared_ptr<SessionEngine>> Host::Sessions() const {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<SessionEngine>> sessions;
  for (const auto& [id, session] : sessions_) sessions.push_back(session);
  return sessions;
}

std::vector<std::shared_ptr<SessionEngine>> Host::Engines() const {
  std::vector<std::shared_ptr<SessionEngine>> engines = Sessions();
  MutexLock lock(&mutex_);
  engines.insert(engines.end(), leaving_.begin(), leaving_.end());
  return engines;
}

void Host::AfterInFlight(std::function<void()> then) {
  std::vector<std::shared_ptr<QueueEngine>> busy;
  for (const auto& session : Engines()) {
    for (auto& queue : session->Queues()) {
      if (queue->admitted() != queue->completed()) busy.push_back(queue);
    }
  }
  if (busy.empty()) return then();
  auto left = std::make_shared<std::atomic<size_t>>(busy.size());
  auto shared = std::make_shared<std::function<void()>>(std::move(then));
  for (auto& queue : busy) {
    queue->Await([left, shared](const absl::Status&) {
      if (left->fetch_sub(1) == 1) (*shared)();
    });
  }
}

}  // namespace kcache::backend
