// Sessions: one per client process (stream), with what it holds and what it must be told.
//
//   Hello ──► CONNECTED ──stream lost──► AWAY ──Hello with the session's key──► CONNECTED
//                 │                        │
//                 │ Goodbye, or silent     │ silent for longer than the TTL,
//                 │ longer than the TTL    │ or its process has exited
//                 ▼                        ▼
//               ENDED: leases and pins are given back, hosts sweep its buffers
//
// The TTL only reaps. It is measured on CLOCK_BOOTTIME from the last message; a daemon that was
// itself stalled for more than a quarter of it first reads what is waiting and then grants
// everybody a full TTL.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_SESSION_TABLE_H_
#define KCACHE_DAEMON_CORE_SESSION_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "contract/digest.h"
#include "daemon/core/dependencies.h"
#include "daemon/core/limits.h"
#include "daemon/core/outbox.h"
#include "daemon/core/service.h"
#include "daemon/core/trust_domain.h"

namespace kcache::core {

using SessionId = uint64_t;
using ContextId = uint64_t;

struct AcquireRequest;

// A lease, as its session keeps it: the rest is in the context's handle.
struct LeaseKey {
  ContextId context = 0;
  uint32_t slot = 0;
  friend bool operator==(const LeaseKey&, const LeaseKey&) = default;
  template <typename H>
  friend H AbslHashValue(H state, const LeaseKey& key) {
    return H::combine(std::move(state), key.context, key.slot);
  }
};

struct LeaseRecord {
  uint32_t incarnation = 0;
  uint32_t granted_s = 0;  // seconds on the core's clock: ages are for people
};

struct Session {
  SessionId id = 0;
  std::string key;  // 16 random bytes that only its client knows
  Peer peer;
  TrustDomain domain;
  std::string name;
  SessionEndpoint* endpoint = nullptr;  // null while AWAY
  bool close_pending = false;
  bool wake_pending = false;
  absl::Duration opened;
  absl::Duration last_heard;
  bool process_exited = false;
  bool ended = false;

  Outbox outbox;
  bool subscribed = false;
  std::vector<std::string> families;  // subscribed to; empty: all

  absl::flat_hash_map<LeaseKey, LeaseRecord> leases;
  absl::flat_hash_set<Digest> pins;
  // Contexts this session has been introduced to: it may have a stream and buffers there.
  absl::flat_hash_set<ContextId> contexts;
  std::map<uint64_t, std::shared_ptr<AcquireRequest>> requests;

  explicit Session(const Limits& limits)
      : outbox(limits.max_outbox_events, limits.max_outbox_bytes) {}

  bool Wants(std::string_view family) const;
  std::string Describe() const;  // "worker (pid 4711)"

  // Queues an event and wakes the stream. An outbox over its bound cuts the stream.
  void Send(v1::DaemonEvent event);
  void SendFailure(uint64_t request_id, const absl::Status& status);
};

class SessionTable {
 public:
  SessionTable(const Options* options, const Dependencies* deps) : options_(options), deps_(deps) {}

  // Runs when a session ends, while it is still whole.
  void set_on_end(Function<void(Session&, std::string_view why)> on_end) {
    on_end_ = std::move(on_end);
  }

  absl::StatusOr<Session*> Create(const Peer& peer, std::string name);
  Session* Find(SessionId id);
  // The session if `peer` and `key` are its own: SESSION_UNKNOWN, PERMISSION_DENIED.
  absl::StatusOr<Session*> Authenticate(const Peer& peer, SessionId id, std::string_view key);
  void End(Session* session, std::string_view why);

  void StartReaping();

  template <class F>
  void ForEach(F&& each) {
    for (auto& [id, session] : sessions_) each(*session);
  }
  size_t size() const { return sessions_.size(); }
  bool HasDomain(const std::string& domain) const { return by_domain_.contains(domain); }
  uint64_t leases() const;

 private:
  void Reap();

  const Options* const options_;
  const Dependencies* const deps_;
  Function<void(Session&, std::string_view)> on_end_;
  absl::flat_hash_map<SessionId, std::unique_ptr<Session>> sessions_;
  absl::flat_hash_map<std::string, uint32_t> by_domain_;
  absl::Duration reap_due_;
  absl::Duration not_before_;  // nobody is reaped earlier: the daemon itself was stalled
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_SESSION_TABLE_H_
