#include "client/src/session.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::internal {
namespace {

// What a daemon may say; a TTL beyond either is taken as the nearest of them.
constexpr std::chrono::milliseconds kMinTtl{30};
constexpr std::chrono::milliseconds kMaxTtl = std::chrono::hours(1);

// How long what is not urgent waits for company.
constexpr Duration kSoon = std::chrono::milliseconds(2);
// Of one message; what is left goes with the next.
constexpr size_t kMessageBytes = 1u << 20;

// Sets the request id of whichever request this is.
void SetRequestId(uint64_t id, v1::ClientEvent* event) {
  switch (event->event_case()) {
    case v1::ClientEvent::kAcquire:
      event->mutable_acquire()->set_request_id(id);
      break;
    case v1::ClientEvent::kClear:
      event->mutable_clear()->set_request_id(id);
      break;
    case v1::ClientEvent::kDestroyDevice:
      event->mutable_destroy_device()->set_request_id(id);
      break;
    case v1::ClientEvent::kListDevices:
      event->mutable_list_devices()->set_request_id(id);
      break;
    default:
      break;
  }
}

bool SaysSessionIsGone(const absl::Status& status) {
  const v1::ErrorReason reason = ReasonOf(status);
  return reason == v1::SESSION_UNKNOWN || reason == v1::SESSION_EXPIRED ||
         reason == v1::WRONG_INSTANCE;
}

}  // namespace

class Session::Observer final : public SessionStreamObserver {
 public:
  Observer(const std::shared_ptr<Session>& session, uint64_t number)
      : session_(session), executor_(session->runtime_->executor), number_(number) {}

  void OnMessage(v1::DaemonMessage message) override {
    executor_->Run([weak = session_, number = number_, message = std::move(message)]() mutable {
      if (auto session = weak.lock()) session->OnMessage(number, std::move(message));
    });
  }
  void OnWritten() override {
    executor_->Run([weak = session_, number = number_] {
      if (auto session = weak.lock()) session->OnWritten(number);
    });
  }
  void OnClosed(absl::Status why) override {
    executor_->Run([weak = session_, number = number_, why] {
      if (auto session = weak.lock()) session->OnClosed(number, why);
    });
  }

 private:
  const std::weak_ptr<Session> session_;
  const std::shared_ptr<SerialExecutor> executor_;
  const uint64_t number_;
};

Session::Session(SessionOptions options, std::shared_ptr<Runtime> runtime,
                 SessionDelegate* delegate)
    : options_(std::move(options)),
      runtime_(std::move(runtime)),
      timers_(runtime_->timers.get()),
      delegate_(delegate) {}

// ---- connecting ---------------------------------------------------------------------------------

void Session::Open(std::function<void(absl::Status)> done) {
  opened_ = std::move(done);
  disconnected_at_ = timers_->Now();
  Connect();
}

void Session::Connect() {
  state_ = State::kConnecting;
  outgoing_.clear();
  writing_ = false;
  const uint64_t number = ++stream_number_;
  Schedule(
      options_.connect_timeout,
      [this, number] {
        OnClosed(number,
                 MakeError(
                     v1::DAEMON_UNREACHABLE,
                     absl::StrCat("the daemon at ", runtime_->transport->socket(),
                                  " did not answer within ",
                                  options_.connect_timeout / std::chrono::milliseconds(1), " ms")));
      },
      &connect_timer_);
  stream_ =
      runtime_->transport->OpenSession(std::make_shared<Observer>(shared_from_this(), number));
  v1::ClientEvent hello;
  hello.mutable_hello()->set_version(v1::PROTOCOL_VERSION_1);
  hello.mutable_hello()->set_client_name(options_.client_name);
  hello.mutable_hello()->set_client_version(options_.client_version);
  if (credentials_.session_id != 0) {
    hello.mutable_hello()->set_instance(credentials_.instance);
    hello.mutable_hello()->set_session_id(credentials_.session_id);
    hello.mutable_hello()->set_session_key(credentials_.session_key);
    hello.mutable_hello()->set_last_revision(handled_revision_);
    hello.mutable_hello()->set_last_phase(handled_phase_);
  }
  Send(hello);
  // Told of everything: a listener may concern what this process holds no lease on.
  v1::ClientEvent subscribe;
  subscribe.mutable_subscribe();
  Send(subscribe);
}

void Session::OnClosed(uint64_t stream, const absl::Status& why) {
  if (stream != stream_number_) return;
  if (state_ == State::kClosed) {
    outgoing_.clear();  // there is nobody to say goodbye to
    return FinishClosing();
  }
  // Whatever else this stream says comes too late.
  ++stream_number_;
  if (auto old = std::exchange(stream_, nullptr)) old->Abandon();
  timers_->Cancel(std::exchange(connect_timer_, 0));
  timers_->Cancel(std::exchange(renew_timer_, 0));
  timers_->Cancel(std::exchange(soon_timer_, 0));
  const absl::Status reason =
      why.ok() ? MakeError(v1::CONNECTION_LOST,
                           absl::StrCat("the daemon at ", runtime_->transport->socket(),
                                        " closed the connection"))
               : why;
  if (opened_) {
    state_ = State::kClosed;
    std::exchange(opened_, nullptr)(reason);
    return;
  }
  if (state_ == State::kReady) {
    disconnected_at_ = timers_->Now();
    backoff_ = Duration(0);
    delegate_->OnProblem(Annotate(reason, "lost the connection to the daemon, connecting again"));
  }
  state_ = State::kConnecting;
  for (auto& [id, request] : requests_) request.order = 0;
  std::vector<uint64_t> unrepeatable;
  for (const auto& [id, request] : requests_) {
    if (!request.options.repeatable) unrepeatable.push_back(id);
  }
  for (const uint64_t id : unrepeatable) {
    Answer(id, MakeError(v1::CONNECTION_LOST,
                         absl::StrCat("the connection to the daemon was lost, and the outcome is "
                                      "unknown: ",
                                      std::string(reason.message()))));
  }
  FailStale();
  Schedule(
      backoff_, [this] { Connect(); }, &connect_timer_);
  backoff_ = backoff_ == Duration(0) ? options_.first_backoff
                                     : std::min(backoff_ * 2, options_.max_backoff);
}

// Nobody waits for a lost daemon longer than the connect timeout.
void Session::FailStale() {
  const Time now = timers_->Now();
  std::vector<uint64_t> stale;
  for (const auto& [id, request] : requests_) {
    if (now - std::max(request.asked, disconnected_at_) >= options_.connect_timeout) {
      stale.push_back(id);
    }
  }
  for (const uint64_t id : stale) {
    Answer(id,
           MakeError(v1::DAEMON_UNREACHABLE,
                     absl::StrCat("the connection to the daemon at ", runtime_->transport->socket(),
                                  " was lost and did not come back within ",
                                  options_.connect_timeout / std::chrono::milliseconds(1), " ms")));
  }
}

void Session::OnWelcome(const v1::Welcome& welcome) {
  if (state_ != State::kConnecting) return;
  timers_->Cancel(std::exchange(connect_timer_, 0));
  if (!welcome.resumed() && credentials_.session_id != 0) {
    const bool restarted = welcome.instance() != credentials_.instance;
    ForgetSession(MakeError(v1::LEASE_REVOKED,
                            restarted ? "the daemon was restarted: what it granted is void"
                                      : "the daemon has ended this session: what it granted is "
                                        "void"));
  }
  state_ = State::kReady;
  backoff_ = Duration(0);
  welcome_ = welcome;
  credentials_ = {welcome.instance(), welcome.session_id(), welcome.session_key()};
  if (opened_) std::exchange(opened_, nullptr)(absl::OkStatus());
  if (welcome.resumed()) {
    delegate_->OnResumed();
    // In their old order, before anything new.
    std::deque<UnconfirmedNote> notes = std::exchange(notes_, {});
    for (UnconfirmedNote& note : notes) Note(std::move(note.event));
  }
  for (auto& [id, request] : requests_) SendRequest(&request);
  Renew();
}

void Session::ForgetSession(const absl::Status& why) {
  credentials_ = {};
  handled_revision_ = 0;
  handled_phase_ = v1::PHASE_UNSPECIFIED;
  notes_.clear();
  std::vector<uint64_t> void_now;
  for (const auto& [id, request] : requests_) {
    if (!request.options.survives_session) void_now.push_back(id);
  }
  for (const uint64_t id : void_now) {
    Answer(id, MakeError(v1::INTERRUPTED, absl::StrCat("the session ended before the answer came: ",
                                                       std::string(why.message()))));
  }
  delegate_->OnSessionLost(why);
}

void Session::Close(std::function<void()> closed) {
  if (state_ == State::kClosed) return closed();
  const bool ready = state_ == State::kReady;
  state_ = State::kClosed;
  closed_ = std::move(closed);
  timers_->Cancel(std::exchange(connect_timer_, 0));
  timers_->Cancel(std::exchange(renew_timer_, 0));
  timers_->Cancel(std::exchange(soon_timer_, 0));
  const absl::Status why = MakeError(v1::CANCELLED, "the client was closed");
  if (opened_) std::exchange(opened_, nullptr)(why);
  while (!requests_.empty()) Answer(requests_.begin()->first, why);
  if (ready) outgoing_.emplace_back().mutable_goodbye();
  if (!ready || !writing_) FinishClosing();
}

// No write is under way: the last one, then the end.
void Session::FinishClosing() {
  ++stream_number_;
  if (auto stream = std::exchange(stream_, nullptr)) {
    if (!outgoing_.empty()) stream->Write(TakeMessage());
    stream->Close();
  }
  if (auto closed = std::exchange(closed_, nullptr)) closed();
}

// ---- requests and notes -------------------------------------------------------------------------

uint64_t Session::Request(v1::ClientEvent event, const RequestOptions& options, Reply reply) {
  const uint64_t id = ++last_request_;
  SetRequestId(id, &event);
  if (state_ == State::kClosed) {
    reply(MakeError(v1::CANCELLED, "the client was closed"));
    return id;
  }
  Outstanding& request = requests_[id];
  request.event = std::move(event);
  request.options = options;
  request.reply = std::move(reply);
  request.asked = timers_->Now();
  if (options.timeout.has_value()) {
    Schedule(
        *options.timeout,
        [this, id, timeout = *options.timeout] {
          Cancel(id, MakeError(v1::DEADLINE_EXCEEDED,
                               absl::StrCat("no answer from the daemon within ",
                                            timeout / std::chrono::milliseconds(1), " ms")));
        },
        &request.timer);
  }
  if (state_ == State::kReady) SendRequest(&request);
  return id;
}

void Session::SendRequest(Outstanding* request) {
  request->order = ++last_order_;
  Send(request->event);
}

void Session::Cancel(uint64_t request_id, const absl::Status& why) {
  const auto found = requests_.find(request_id);
  if (found == requests_.end()) return;
  const bool tell = found->second.event.has_acquire() && found->second.order != 0;
  Answer(request_id, why);
  if (!tell || state_ != State::kReady) return;
  v1::ClientEvent cancel;
  cancel.mutable_cancel()->set_request_id(request_id);
  Send(cancel);
}

uint64_t Session::Note(v1::ClientEvent event, Urgency urgency) {
  const uint64_t order = ++last_order_;
  if (state_ == State::kClosed || credentials_.session_id == 0) return order;
  notes_.push_back({order, std::move(event)});
  if (state_ == State::kReady) Send(notes_.back().event, urgency);
  return order;
}

void Session::HandledUpTo(uint64_t revision, v1::Phase phase) {
  handled_revision_ = revision;
  handled_phase_ = phase;
}

void Session::Confirm(uint64_t order) {
  while (!notes_.empty() && notes_.front().order < order) notes_.pop_front();
}

void Session::Answer(uint64_t request_id, absl::StatusOr<v1::DaemonEvent> answer) {
  auto node = requests_.extract(request_id);
  if (node.empty()) return;
  timers_->Cancel(node.mapped().timer);
  answered_order_ = node.mapped().order;
  node.mapped().reply(std::move(answer));
}

void Session::Renew() {
  if (state_ != State::kReady) return;
  v1::ClientEvent event;
  event.mutable_renew()->set_sequence(++last_renewal_);
  event.mutable_renew()->set_last_revision(handled_revision_);
  renewal_order_ = ++last_order_;
  Send(event);
  const auto ttl = std::chrono::milliseconds(
      std::clamp<uint64_t>(welcome_.ttl_ms(), kMinTtl / std::chrono::milliseconds(1),
                           kMaxTtl / std::chrono::milliseconds(1)));
  Schedule(
      ttl / 3, [this] { Renew(); }, &renew_timer_);
}

// ---- the stream ---------------------------------------------------------------------------------

void Session::Send(const v1::ClientEvent& event, Urgency urgency) {
  outgoing_.push_back(event);
  if (flush_queued_ || writing_) return;
  if (urgency == Urgency::kSoon) {
    if (soon_timer_ != 0) return;
    Schedule(
        kSoon,
        [this] {
          soon_timer_ = 0;
          Flush();
        },
        &soon_timer_);
    return;
  }
  // Behind the task that runs, so that all it sends leaves in one message.
  flush_queued_ = true;
  runtime_->executor->Run([weak = weak_from_this()] {
    auto session = weak.lock();
    if (session == nullptr) return;
    session->flush_queued_ = false;
    session->Flush();
  });
}

v1::ClientMessage Session::TakeMessage() {
  v1::ClientMessage message;
  size_t bytes = 0;
  while (!outgoing_.empty()) {
    bytes += outgoing_.front().ByteSizeLong();
    if (bytes > kMessageBytes && !message.events().empty()) break;
    *message.add_events() = std::move(outgoing_.front());
    outgoing_.pop_front();
  }
  return message;
}

void Session::Flush() {
  if (state_ == State::kClosed || writing_ || stream_ == nullptr || outgoing_.empty()) return;
  writing_ = true;
  const std::shared_ptr<SessionStream> stream = stream_;
  stream->Write(TakeMessage());
}

void Session::OnWritten(uint64_t stream) {
  if (stream != stream_number_) return;
  writing_ = false;
  if (state_ == State::kClosed) return FinishClosing();
  Flush();
}

void Session::OnMessage(uint64_t stream, v1::DaemonMessage message) {
  for (v1::DaemonEvent& event : *message.mutable_events()) {
    // An event may have closed the session, or this stream.
    if (stream != stream_number_ || state_ == State::kClosed) return;
    OnEvent(std::move(event));
  }
}

void Session::OnEvent(v1::DaemonEvent event) {
  uint64_t request_id = 0;
  switch (event.event_case()) {
    case v1::DaemonEvent::kWelcome:
      return OnWelcome(event.welcome());
    case v1::DaemonEvent::kFailure:
      return OnFailure(std::move(event));
    case v1::DaemonEvent::kRenewed:
      if (event.renewed().sequence() == last_renewal_) Confirm(renewal_order_);
      return;
    case v1::DaemonEvent::kInvalidate:
      return delegate_->OnInvalidate(event.invalidate());
    case v1::DaemonEvent::kContextInfo:
      return delegate_->OnContextInfo(event.context_info());
    case v1::DaemonEvent::kNeedSource:
      return delegate_->OnNeedSource(event.need_source().request_id(),
                                     event.need_source().program_digest());
    case v1::DaemonEvent::kProgress:
    case v1::DaemonEvent::EVENT_NOT_SET:  // of a newer daemon
      return;
    case v1::DaemonEvent::kGrant:
      request_id = event.grant().request_id();
      break;
    case v1::DaemonEvent::kOperationDone:
      request_id = event.operation_done().request_id();
      break;
    case v1::DaemonEvent::kDeviceList:
      request_id = event.device_list().request_id();
      break;
  }
  const auto found = requests_.find(request_id);
  if (found == requests_.end()) {
    if (event.has_grant()) delegate_->OnUnclaimedGrant(event.grant());
    return;
  }
  Confirm(found->second.order);
  Answer(request_id, std::move(event));
}

void Session::OnFailure(v1::DaemonEvent event) {
  absl::Status failure = FromProto(event.failure().error());
  if (failure.ok()) failure = MakeError(v1::INTERNAL, "the daemon sent a failure without an error");
  const uint64_t request_id = event.failure().request_id();
  if (request_id != 0) {
    const auto found = requests_.find(request_id);
    if (found != requests_.end()) Confirm(found->second.order);
    return Answer(request_id, failure);
  }
  if (SaysSessionIsGone(failure)) {
    if (credentials_.session_id != 0) {
      ForgetSession(MakeError(v1::LEASE_REVOKED, absl::StrCat("the daemon has ended this session: ",
                                                              std::string(failure.message()))));
    }
    // The next Hello asks for a new session; the old stream is of no more use.
    return OnClosed(stream_number_, failure);
  }
  if (state_ == State::kConnecting) return OnClosed(stream_number_, failure);
  delegate_->OnProblem(failure);
}

void Session::Schedule(Duration delay, std::function<void()> task, Timers::Id* timer) {
  timers_->Cancel(*timer);
  *timer = timers_->After(
      delay, [executor = runtime_->executor, weak = weak_from_this(), task = std::move(task)] {
        executor->Run([weak, task] {
          auto session = weak.lock();
          if (session != nullptr && session->state_ != State::kClosed) task();
        });
      });
}

}  // namespace kcache::internal
