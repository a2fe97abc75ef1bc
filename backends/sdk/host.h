// A device host: the one context of this process, and everything in it.
//
//   NEW ──OpenContext──► SERVING ──Fence(context)──► FENCED ──Teardown──► RELEASED (the process exits)
//                           └── a kernel's fault, a dead driver ──► LOST (the process exits)
//
// LOST admits nothing more either, and the daemon is told only once that is so: it takes the word for a
// fence, and makes the next context while this process still ends.
//
// Independent of every transport: control requests and decoded execution commands come in, replies go
// to a sink. Fencing is this class's promise (G1): when Fence answers, nothing more is admitted
// under what it named.
//
// Threads: any. Lock order: the host's, then a session's; neither is held across a driver call.

#ifndef KCACHE_BACKENDS_SDK_HOST_H_
#define KCACHE_BACKENDS_SDK_HOST_H_

#include <sys/types.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/sdk/admission_gate.h"
#include "backends/sdk/driver.h"
#include "backends/sdk/ledger.h"
#include "backends/sdk/op_cache.h"
#include "backends/sdk/queue_engine.h"
#include "backends/sdk/slot_table.h"
#include "backends/sdk/stall_watchdog.h"
#include "contract/history.h"
#include "contract/lease_token.h"
#include "contract/mutex.h"
#include "kcache/v1/backend.pb.h"
#include "kcache/v1/execution.pb.h"

namespace kcache::backend {

class SessionEngine;

// The process at the other end of an execution stream, as the kernel says.
struct ExecutionPeer {
  uid_t uid = 0;
  pid_t pid = 0;
};

// Takes replies, from any thread, in the order of the calls. Never blocks.
class ReplySink {
 public:
  virtual ~ReplySink() = default;
  virtual void Send(v1::Reply reply) = 0;
  // The session is over: ends the stream.
  virtual void Close(const absl::Status& why) = 0;
};

class Host {
 public:
  // `on_lost` runs once, when the context is dead; it ends the process. `history` may be null: then
  // nothing is recorded.
  Host(Family* family, const History* history, std::function<void(const absl::Status&)> on_lost);
  ~Host();

  // ---- control (backend.proto)
  v1::OpenContextReply OpenContext(const v1::OpenContextRequest& request);
  absl::StatusOr<v1::LoadReply> Load(const v1::LoadRequest& request);
  absl::StatusOr<v1::FenceReply> Fence(const v1::FenceRequest& request);
  absl::StatusOr<v1::UnloadReply> Unload(const v1::UnloadRequest& request);
  absl::StatusOr<v1::EndSessionReply> EndSession(const v1::EndSessionRequest& request);
  absl::StatusOr<v1::TeardownReply> Teardown(const v1::TeardownRequest& request);
  // Events for the daemon: blocks until there are some or `timeout` is over. False: these are the last.
  bool NextEvents(std::chrono::milliseconds timeout, std::vector<v1::HostEvent>* events);
  // What is queued is told, and then no more.
  void EndEvents();
  v1::HostUsage Usage() const;

  // ---- execution
  // A stream has said who it is. PERMISSION_DENIED, LEASE_FOREIGN: and the daemon is told.
  absl::StatusOr<std::shared_ptr<SessionEngine>> Attach(const v1::AttachSession& attach,
                                                        const ExecutionPeer& peer,
                                                        std::shared_ptr<ReplySink> sink);
  void Detach(SessionEngine* session);

  // ---- for the sessions
  Context* context() const { return context_.get(); }
  const v1::HostLimits& limits() const { return limits_; }
  const TokenAuthority& authority() const { return *authority_; }
  const v1::ContextRef& ref() const { return ref_; }
  SlotTable* slots() const { return slots_.get(); }
  Ledger* ledger() { return &ledger_; }
  OpCache* op_cache() const { return op_cache_.get(); }
  AdmissionGate* gate() { return &gate_; }
  const History* history() const { return history_; }
  // Whether somebody watches that queues make progress.
  bool watched() const { return watchdog_ != nullptr; }
  void Lost(const absl::Status& why);
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // Whether a status means that the context is dead; then Lost has been called.
  bool NoteIfLost(const absl::Status& status);
  void Security(uint64_t session, const ExecutionPeer& peer, std::string what);
  void CountRefused(uint64_t count) { refused_.fetch_add(count, std::memory_order_relaxed); }
  void CountLaunches(uint64_t count) { launches_.fetch_add(count, std::memory_order_relaxed); }
  // A session has admitted more: fences that wait for positions look again.
  void NoteProgress();
  // Calls `then` when everything that is in flight now, in every session, is done.
  void AfterInFlight(std::function<void()> then);

 private:
  void Push(v1::HostEvent event);
  std::vector<std::shared_ptr<SessionEngine>> Sessions() const;
  // Those, and those that have gone while something of theirs was in flight.
  std::vector<std::shared_ptr<SessionEngine>> Engines() const;
  v1::EndSessionReply Sweep(std::shared_ptr<SessionEngine> engine, Deadline deadline);
  void AwaitPositions(const v1::FenceRequest& request);
  bool Reached(const v1::FenceRequest& request) const;
  bool AllIdle(Deadline deadline);
  std::vector<StallWatchdog::QueueProgress> Progress() const;

  Family* const family_;
  const History* const history_;
  const std::function<void(const absl::Status&)> on_lost_;
  std::atomic<bool> lost_{false};
  AdmissionGate gate_;  // closed: the context is fenced
  Ledger ledger_;

  // Set by OpenContext, then constant.
  std::unique_ptr<Context> context_;
  v1::ContextRef ref_;
  v1::HostLimits limits_;
  std::unique_ptr<TokenAuthority> authority_;
  uid_t peer_uid_ = 0;
  bool check_peer_uid_ = false;
  std::unique_ptr<SlotTable> slots_;
  std::unique_ptr<OpCache> op_cache_;
  std::atomic<bool> open_{false};

  mutable Mutex mutex_;
  CondVar progress_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<SessionEngine>> sessions_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, bool> ended_ ABSL_GUARDED_BY(mutex_);  // fenced session ids
  // Nobody can reach these any more, but what they have in flight holds off releases all the same.
  std::vector<std::shared_ptr<SessionEngine>> leaving_ ABSL_GUARDED_BY(mutex_);
  int sweeps_ ABSL_GUARDED_BY(mutex_) = 0;  // under way
  bool torn_down_ ABSL_GUARDED_BY(mutex_) = false;

  mutable Mutex events_mutex_;
  CondVar events_changed_;
  std::deque<v1::HostEvent> events_ ABSL_GUARDED_BY(events_mutex_);
  bool closing_ ABSL_GUARDED_BY(events_mutex_) = false;

  std::unique_ptr<StallWatchdog> watchdog_;  // set by OpenContext; null: nobody watches

  std::atomic<uint64_t> launches_{0};
  std::atomic<uint64_t> refused_{0};
  std::atomic<uint64_t> bad_tokens_{0};
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_HOST_H_
