// A context: one device for one trust domain, in a device host of its own.
//
//   CREATING ──host is up──► ALIVE ──destroy──► DRAINING ──fenced──► RELEASING ──exited──► RELEASED
//      │                       │                    │                    │
//      └── host died ──────────┴── host died ───────┴────────────────────┘
//                      ▼       │
//                    LOST ◄────┘ or says that its context is lost
//                     (while RELEASING: RELEASED, with failures)
//
// MoveTo is the one place that changes the state. A context lives once: the next acquire makes
// another one, under the next generation, with another context id and another token key (G7).
//
// A host that says itself that its context is lost admits nothing more, and ends; that can take a
// driver long. So an ALIVE context is LOST at its word, and the next one does not wait for the process:
// until its exit is verified the LOST context is among its device's `exiting` (device_registry.h).
//
// Threads: on the executor. Ownership: shared, because answers of the host may arrive after the
// registry has dropped it; the host process ends with the last reference at the latest.

#ifndef KCACHE_DAEMON_CORE_CONTEXT_H_
#define KCACHE_DAEMON_CORE_CONTEXT_H_

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/device_name.h"
#include "contract/lease_token.h"
#include "daemon/core/dependencies.h"
#include "daemon/core/handle_cache.h"
#include "daemon/core/limits.h"
#include "daemon/core/trust_domain.h"
#include "kcache/v1/types.pb.h"

namespace kcache::core {

enum class ContextState { kCreating, kAlive, kDraining, kReleasing, kReleased, kLost };
std::string_view Name(ContextState state);

class Context;

// Whom a context tells what happened to it. Calls come on the executor.
class ContextOwner {
 public:
  virtual ~ContextOwner() = default;
  // The host says that its context is lost: it admits nothing more, and its process is about to end.
  // The context's state is still what it was; OnContextExit follows.
  virtual void OnContextLost(Context* context) = 0;
  // The host's process has ended, expected or not. The context's state is still what it was.
  virtual void OnContextExit(Context* context, const HostExit& exit) = 0;
  // The hardware reports a loss for the whole card.
  virtual void OnPhysicalLoss(Context* context, const absl::Status& why) = 0;
  virtual void OnContextUsage(Context* context) = 0;
};

using Positions = std::map<uint32_t, uint64_t>;  // queue -> sequence number

class Context : public HostObserver, public std::enable_shared_from_this<Context> {
 public:
  struct Identity {
    uint64_t id = 0;
    DeviceName device;
    TrustDomain domain;
    uint64_t generation = 0;
    std::string instance;
  };

  Context(Identity identity, const v1::DeviceInfo& device, const Options* options,
          const Dependencies* deps, HandleCounters* counters, ContextOwner* owner);
  ~Context() override;

  // Starts the host after `backoff`. Waiters of WhenAlive are answered.
  void Start(absl::Duration backoff);
  // Runs when ALIVE, or with why it did not come to that.
  void WhenAlive(Function<void(absl::Status)> waiter);

  // ---- identity and state
  uint64_t id() const { return identity_.id; }
  const DeviceName& device() const { return identity_.device; }
  const TrustDomain& domain() const { return identity_.domain; }
  uint64_t generation() const { return identity_.generation; }
  ContextState state() const { return state_; }
  const v1::DeviceInfo& info() const { return info_; }
  v1::ContextRef ref() const;
  DeviceHost* host() const { return host_.get(); }
  const HandleCache& handles() const { return handles_; }
  const v1::HostUsage& usage() const { return usage_; }
  std::string Describe() const;  // "OpenCL:0 of uid:1000 (generation 2)"

  void MoveTo(ContextState next);
  // DRAINING: builds under way become stale, their waiters and those of WhenAlive are answered.
  void BeginDraining(const absl::Status& why);
  // Nothing of it can be had any more: whoever waits for it is told why. Idempotent.
  void Abandon(const absl::Status& why);
  // STUCK: its host has survived being killed. It stays known until that process is gone after all;
  // another destroy has nothing to drain, and only waits for the process again.
  void set_stuck() { stuck_ = true; }
  bool stuck() const { return stuck_; }

  // ---- handles
  // A READY handle at once, or later through `waiter` (never inside the call): loads it if need be.
  Handle* AcquireHandle(const Digest& key, const ArtifactPtr& artifact, const std::string& entry,
                        const v1::Specialization& specialization, HandleWaiter waiter);
  Handle* FindReady(const Digest& key);
  Handle* AtSlot(uint32_t slot) { return handles_.AtSlot(slot); }
  std::vector<Handle*> DoomAll() { return handles_.DoomAll(); }
  // Fences and unloads doomed handles that nobody holds (eviction, overtaken builds).
  void UnloadUnheld(std::vector<Handle*> handles);
  void ForgetUnloaded(const std::vector<std::pair<uint32_t, uint32_t>>& slots);

  // ---- sessions
  v1::ContextInfo IntroductionFor(uint64_t session_id);
  std::string LeaseToken(uint64_t session_id, uint32_t slot, uint32_t incarnation) const;
  void AddHolder(uint64_t session_id) {
    ++holders_[session_id];
    ++leases_;
  }
  uint64_t leases() const { return leases_; }
  void RemoveHolder(uint64_t session_id);
  const absl::flat_hash_map<uint64_t, uint32_t>& holders() const { return holders_; }
  absl::flat_hash_set<uint64_t>& introduced() { return introduced_; }
  // How far a session says it had got: the host unloads only past it.
  void NotePositions(uint64_t session_id,
                     const google::protobuf::RepeatedPtrField<v1::QueuePosition>& positions);
  void FillPositions(const absl::flat_hash_set<uint64_t>* sessions, v1::FenceRequest* fence) const;
  // The session has ended: the host fences it, finishes and sweeps. `done` runs when the host has
  // confirmed that it admits nothing more of it, or is gone.
  void EndSession(uint64_t session_id, Function<void()> done);

  // Labels of what the host holds now, newest first, as it told.
  std::vector<std::string> Labels() const;

  // ---- idleness: no lease, buffer, scratch or work since.
  bool Idle() const;
  absl::Duration idle_since() const { return idle_since_; }
  void Touch();

  // HostObserver
  void OnHeartbeat(const v1::HostUsage& usage) override;
  void OnLabel(const v1::LabelChange& change) override;
  void OnLost(const v1::ContextLost& lost) override;
  void OnSecurityEvent(const v1::SecurityEvent& event) override;
  void OnUnresponsive(std::string_view why) override;
  void OnExited(const HostExit& exit) override;

  const absl::Status& loss() const { return loss_; }

 private:
  static constexpr size_t kMaxHandles = 65536;

  void Launch();
  void RecordState() const;
  void PumpLoads();
  void AnswerAlive(const absl::Status& status);

  const Identity identity_;
  v1::DeviceInfo info_;
  const Options* const options_;
  const Dependencies* const deps_;
  ContextOwner* const owner_;
  const std::string token_key_;
  const TokenAuthority authority_;
  ContextState state_ = ContextState::kCreating;
  std::unique_ptr<DeviceHost> host_;
  bool start_pending_ = false;
  bool stuck_ = false;
  bool load_pump_posted_ = false;
  std::vector<Function<void(absl::Status)>> waiting_alive_;
  HandleCache handles_;
  absl::flat_hash_map<uint64_t, uint32_t> holders_;  // session -> leases
  uint64_t leases_ = 0;                              // of all of them
  absl::flat_hash_set<uint64_t> introduced_;
  absl::flat_hash_map<uint64_t, Positions> positions_;
  v1::HostUsage usage_;
  absl::Duration idle_since_;
  // The mirror of the host's ledger: label -> order of acquiring.
  std::multimap<std::string, uint64_t> labels_;
  uint64_t label_order_ = 0;
  absl::Status loss_;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_CONTEXT_H_
