// The session: one stream to the daemon, kept alive and taken up again when it breaks.
//
//   kClosed ──Open──► kConnecting ──Welcome──► kReady ──stream lost──► kConnecting (again, with
//   backoff)
//      ▲                  │ first attempt fails: Open's answer             │
//      └── Close ─────────┴───────────────────────────────────────────────┘
//
// Each Welcome either resumes the session (same daemon) or makes a new one; then the delegate is
// told that everything of the old one is void, before anything of the new one.
//
// What is sent is either a request, which has a reply and is asked again after a break, or a note
// (Release, Ack, Nack), which has none. The daemon handles a stream's events in order, so the reply
// to anything sent later confirms a note; those not yet confirmed are sent again when the session
// resumes. In a new session they are void.
//
// Threads: the public methods on the executor only. Ownership: shared, so that an event that is on
// its way when the client goes finds a closed session; the delegate must stay until Close.

#ifndef KCACHE_CLIENT_SESSION_H_
#define KCACHE_CLIENT_SESSION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/src/runtime.h"
#include "client/src/scheduling.h"
#include "client/src/transport.h"
#include "kcache/v1/session.pb.h"

namespace kcache::internal {

struct SessionOptions {
  std::string client_name;
  std::string client_version;
  Duration connect_timeout = std::chrono::seconds(5);
  Duration first_backoff = std::chrono::milliseconds(5);
  Duration max_backoff = std::chrono::milliseconds(500);
};

// On the executor.
class SessionDelegate {
 public:
  virtual ~SessionDelegate() = default;
  virtual void OnContextInfo(const v1::ContextInfo& info) = 0;
  virtual void OnInvalidate(const v1::Invalidate& event) = 0;
  virtual void OnNeedSource(uint64_t request_id, const std::string& program_digest) = 0;
  // A grant that nobody waits for any more.
  virtual void OnUnclaimedGrant(const v1::Grant& grant) = 0;
  // The same session continues on another stream.
  virtual void OnResumed() = 0;
  // Everything of the session is void.
  virtual void OnSessionLost(const absl::Status& why) = 0;
  virtual void OnProblem(const absl::Status& problem) = 0;
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  using Reply = std::function<void(absl::StatusOr<v1::DaemonEvent>)>;

  struct RequestOptions {
    // Not given: waits as long as the session lives.
    std::optional<Duration> timeout;
    // Ask again when the stream broke. False: CONNECTION_LOST, the outcome is unknown.
    bool repeatable = true;
    // In a new session, too.
    bool survives_session = true;
  };

  struct Credentials {
    std::string instance;
    uint64_t session_id = 0;
    std::string session_key;
  };

  Session(SessionOptions options, std::shared_ptr<Runtime> runtime, SessionDelegate* delegate);

  // `done` runs once: with the first Welcome, or with why there is none.
  void Open(std::function<void(absl::Status)> done);
  // Fails what is outstanding with CANCELLED and says goodbye; `closed` runs when that has left, or
  // could not. Nothing else is called back afterwards.
  void Close(std::function<void()> closed);

  // Sends a request; its id is set here and returned. `reply` runs once: with the daemon's event,
  // or its Failure as a status, or DEADLINE_EXCEEDED, DAEMON_UNREACHABLE, CONNECTION_LOST,
  // CANCELLED.
  uint64_t Request(v1::ClientEvent event, const RequestOptions& options, Reply reply);
  // Fails the request with `why` and tells the daemon, if it was an acquire.
  void Cancel(uint64_t request_id, const absl::Status& why);
  // kSoon: rides with the next message, or leaves alone a moment later. Returns the note's place
  // among all that is sent.
  enum class Urgency { kNow, kSoon };
  uint64_t Note(v1::ClientEvent event, Urgency urgency = Urgency::kNow);
  // Inside a reply: the place of its request.
  uint64_t answered_order() const { return answered_order_; }

  // An Invalidate has been handled completely, up to this revision.
  void HandledUpTo(uint64_t revision, v1::Phase phase);

  bool ready() const { return state_ == State::kReady; }
  const Credentials& credentials() const { return credentials_; }
  const v1::Welcome& welcome() const { return welcome_; }

 private:
  enum class State { kClosed, kConnecting, kReady };
  class Observer;

  struct Outstanding {
    v1::ClientEvent event;
    RequestOptions options;
    Reply reply;
    Time asked{0};
    Timers::Id timer = 0;
    uint64_t order = 0;  // of its last sending; 0: not sent on this stream
  };

  struct UnconfirmedNote {
    uint64_t order;
    v1::ClientEvent event;
  };

  void Connect();
  void OnMessage(uint64_t stream, v1::DaemonMessage message);
  void OnWritten(uint64_t stream);
  void OnClosed(uint64_t stream, const absl::Status& why);
  void OnEvent(v1::DaemonEvent event);
  void OnWelcome(const v1::Welcome& welcome);
  void OnFailure(v1::DaemonEvent event);
  void Answer(uint64_t request_id, absl::StatusOr<v1::DaemonEvent> answer);
  void ForgetSession(const absl::Status& why);
  void FailStale();
  void FinishClosing();
  void Confirm(uint64_t order);
  void Send(const v1::ClientEvent& event, Urgency urgency = Urgency::kNow);
  void SendRequest(Outstanding* request);
  v1::ClientMessage TakeMessage();
  void Flush();
  void Renew();
  void Schedule(Duration delay, std::function<void()> task, Timers::Id* timer);

  const SessionOptions options_;
  const std::shared_ptr<Runtime> runtime_;
  Timers* const timers_;
  SessionDelegate* const delegate_;

  State state_ = State::kClosed;
  std::function<void(absl::Status)> opened_;  // until the first Welcome
  std::function<void()> closed_;              // while saying goodbye
  std::shared_ptr<SessionStream> stream_;
  uint64_t stream_number_ = 0;  // tells events of this stream from those of an earlier one
  bool writing_ = false;
  bool flush_queued_ = false;
  std::deque<v1::ClientEvent> outgoing_;

  Credentials credentials_;
  v1::Welcome welcome_;
  uint64_t handled_revision_ = 0;
  v1::Phase handled_phase_ = v1::PHASE_UNSPECIFIED;

  uint64_t last_request_ = 0;
  uint64_t last_order_ = 0;
  uint64_t last_renewal_ = 0;
  uint64_t renewal_order_ = 0;
  uint64_t answered_order_ = 0;
  std::map<uint64_t, Outstanding> requests_;
  std::deque<UnconfirmedNote> notes_;

  Time disconnected_at_{0};
  Duration backoff_{0};
  Timers::Id renew_timer_ = 0;
  Timers::Id soon_timer_ = 0;
  Timers::Id connect_timer_ = 0;  // the next attempt, or the end of this one
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_SESSION_H_
