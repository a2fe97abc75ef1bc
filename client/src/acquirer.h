// Acquires: from the memo when it can, else from the daemon, again when a teardown got in between.
//
//   ask ──► memo hit ─────────────────────────────────────────────────────► kernel
//     ▲ ├─► somebody of this process is asking ──► wait for his outcome ──┐
//     │ └─► ask the daemon ──► lease ──► memo ────────────────────────────┤
//     │                                                                   ▼
//     ├── DEVICE_DRAINING, NOT_READY: after the drain, as often as the deadline allows
//     ├── cleared meanwhile: at once, at most three times, then CLEARED
//     └── the one we waited for gave up: at once
//                                                    anything else ──► the answer
//
// Threads: Start from any thread, everything else on the executor. `done` runs once. Ownership:
// shared, because answers come later; after Stop every ask answers CANCELLED.

#ifndef KCACHE_CLIENT_ACQUIRER_H_
#define KCACHE_CLIENT_ACQUIRER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "client/src/invalidator.h"
#include "client/src/memo.h"
#include "client/src/runtime.h"
#include "client/src/session.h"
#include "client/src/state.h"

namespace kcache::internal {

class Acquirer : public std::enable_shared_from_this<Acquirer> {
 public:
  using Value = std::shared_ptr<KernelState>;
  using Done = std::function<void(absl::StatusOr<Value>)>;
  using GrantDone = std::function<void(absl::StatusOr<v1::Grant>)>;
  // Makes the kernel that a grant is about. DEVICE_DRAINING: its context is on its way out.
  // LEASE_REVOKED: this process has given the lease back meanwhile; ask again.
  using Adopt = std::function<absl::StatusOr<Value>(const v1::Grant& grant, uint64_t asked_order)>;

  struct Ask {
    MemoKey key;
    v1::Acquire acquire;  // but for its request id
    std::shared_ptr<const ProgramState> program;
    Duration timeout;
  };

  Acquirer(std::shared_ptr<Runtime> runtime, std::shared_ptr<Memo> memo,
           std::shared_ptr<Invalidator> invalidator, Adopt adopt);

  void SetSession(std::shared_ptr<Session> session) { session_ = std::move(session); }
  void Stop();

  void Start(Ask ask, Done done);

  // An artifact or a context: no memo, the same patience.
  void StartPlain(v1::Acquire acquire, std::shared_ptr<const ProgramState> program,
                  std::optional<DeviceName> device, Duration timeout, GrantDone done);

  // The program a request is about, for an upload.
  std::shared_ptr<const ProgramState> ProgramOf(uint64_t request_id) const;
  // The daemon did not take the program: whoever waits for it fails.
  void FailProgram(const Digest& program, const absl::Status& why);

  uint64_t sent() const { return sent_.load(std::memory_order_relaxed); }
  uint64_t grants() const { return grants_.load(std::memory_order_relaxed); }

 private:
  struct Asker {
    Ask ask;
    Done done;
    Time deadline{0};
    int clears = 0;
    Duration backoff{0};
    Timers::Id timer = 0;
  };
  using AskerPtr = std::shared_ptr<Asker>;

  void Attempt(const AskerPtr& asker);
  // Once the device is through with its teardown, or after a pause. `last`: why not now.
  void AttemptAfterDrain(const AskerPtr& asker, const absl::Status& last);
  void AskDaemon(const AskerPtr& asker, std::shared_ptr<Memo::Cache::Ticket> ticket);
  void OnGrant(const AskerPtr& asker, std::shared_ptr<Memo::Cache::Ticket> ticket,
               absl::StatusOr<v1::DaemonEvent> reply);
  void OnOutcome(const AskerPtr& asker, bool own, absl::StatusOr<Value> outcome);
  void SendAcquire(v1::Acquire acquire, std::shared_ptr<const ProgramState> program,
                   Duration timeout, Session::Reply reply);
  static Duration NextBackoff(Duration* backoff);

  const std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<Memo> memo_;
  const std::shared_ptr<Invalidator> invalidator_;
  const Adopt adopt_;
  std::shared_ptr<Session> session_;
  std::map<uint64_t, std::shared_ptr<const ProgramState>> programs_;  // by request
  std::atomic<uint64_t> sent_{0};
  std::atomic<uint64_t> grants_{0};
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_ACQUIRER_H_
