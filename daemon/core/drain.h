// Giving back what one context holds: all of it (destroy), or its handles (clear). Of a context that is
// LOST nothing is left but its host's process (exit): that drain begins RELEASING.
//
//   WAITING ──every holder acknowledged, gone, or grace over──► FENCING ──host confirms──► RELEASING
//      │                                                          │                            │
//      │                                                          │ no answer: kill            │ released,
//      │ the host died: nothing is left to wait for               ▼                            ▼ exit verified
//      │ (for a clear: or says that it is lost)                   │                            │
//      └────────────────────────────────────────────────────► DONE ◄──────────────────────── DONE
//
// Grace is a courtesy, safety is the fence (G1): nothing is released before the host has confirmed
// that it admits nothing more, and a dead host admits nothing. A drain never depends on a client:
// every stage has a bound, and after the last one the host is killed; one that survives even that for
// `kill_verify` is STUCK.
//
// Threads: on the executor. Shared, because timers and answers hold it until they are through.

#ifndef KCACHE_DAEMON_CORE_DRAIN_H_
#define KCACHE_DAEMON_CORE_DRAIN_H_

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "daemon/core/context.h"
#include "daemon/core/core.h"
#include "kcache/v1/session.pb.h"

namespace kcache::core {

struct DrainOutcome {
  uint32_t acked = 0;
  uint32_t gone = 0;
  std::vector<SessionId> unacked;     // grace was over: REVOKED_UNACKED
  absl::Duration waited;              // from the drain's making to the last acknowledgement
  std::vector<std::string> released;  // labels, in order
  std::vector<std::string> failures;  // "label: failure"
  bool lost = false;                  // the host died before the fence
  bool stuck = false;
};

class ContextDrain : public std::enable_shared_from_this<ContextDrain> {
 public:
  enum class Kind { kDestroy, kClear, kExit };
  enum class Stage { kWaiting, kFencing, kReleasing, kDone };
  using Slots = std::vector<std::pair<uint32_t, uint32_t>>;  // (slot, incarnation), newest first

  struct Waiting {
    absl::Duration since;
    std::string nack;
  };

  // `slots` for kClear. `on_change` runs at each stage; `on_released` once the handles are given back,
  // before their slots can be given out again (kClear); `on_done` once, last. None inside Start.
  ContextDrain(Core* core, std::shared_ptr<Context> context, Kind kind, std::string operation_id,
               absl::Duration grace, absl::Duration finish, Slots slots,
               Function<void()> on_change, Function<void()> on_released,
               Function<void()> on_done);

  void Start(const std::vector<SessionId>& holders);
  // Instead, when the context's host was STUCK before: kills it again and waits for its exit.
  void StartStuck();
  // kExit: waits for the exit that the host has begun, then kills it.
  void StartExit();

  void OnAck(SessionId session);
  void OnNack(SessionId session, std::string why);
  // The session has ended and the host has fenced it.
  void OnHolderGone(SessionId session);
  void OnContextExit(const HostExit& exit);
  // The host says that its context is lost (kClear): it has no handle any more.
  void OnContextLost();
  // A destroy of the same context has begun: it releases what this clear would have.
  void Supersede();
  // That destroy has ended, however it ended: so has this clear.
  void OnSupersederDone();
  // The core goes while this is under way: nobody is called back any more.
  void Abandon();

  Context* context() const { return context_.get(); }
  const std::string& operation_id() const { return operation_id_; }
  Kind kind() const { return kind_; }
  Stage stage() const { return stage_; }
  bool done() const { return stage_ == Stage::kDone; }
  const std::map<SessionId, Waiting>& waiting() const { return waiting_; }
  uint32_t holders() const { return holders_; }
  const DrainOutcome& outcome() const { return outcome_; }
  const Slots& slots() const { return slots_; }

 private:
  void Holder(SessionId session, uint32_t* counter);
  void OnGraceOver();
  // The one place where the stage changes.
  void MoveTo(Stage next);
  void RecordStart() const;
  void RecordHolder(std::string_view what, SessionId session) const;
  void Fence();
  void Release();
  void ReleaseHandles();
  void Kill(std::string why);
  void WatchExit();
  void Done();
  void Arm(absl::Duration delay, Function<void()> then);

  Core* const core_;
  const std::shared_ptr<Context> context_;
  const Kind kind_;
  const std::string operation_id_;
  const absl::Duration grace_;
  const absl::Duration finish_;
  const Slots slots_;
  Function<void()> on_change_;
  Function<void()> on_released_;
  Function<void()> on_done_;
  Stage stage_ = Stage::kWaiting;
  bool superseded_ = false;
  bool was_alive_ = false;
  bool torn_down_ = false;  // the host has answered Teardown, finished
  bool killed_ = false;
  bool grace_extended_ = false;
  const absl::Duration made_;
  absl::Duration grace_due_;
  TimerId timer_ = 0;
  uint32_t holders_ = 0;
  std::map<SessionId, Waiting> waiting_;
  DrainOutcome outcome_;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_DRAIN_H_
