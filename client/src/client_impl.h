// Wires one client together: session, memo, invalidations, contexts.
//
//   Client ─► ClientImpl ─┬─ Session        one stream to the daemon
//                         ├─ Memo           what has been acquired
//                         ├─ Acquirer       memo, then daemon, with patience
//                         ├─ Invalidator    what to do when told
//                         ├─ Uploader       sources the daemon asks for
//                         └─ ContextState…  one execution stream each
//
// Threads: methods say. What is "on the executor" is ordered and needs no lock. Ownership: the
// public Client owns this and calls Close; kernels, buffers and artifacts refer to it weakly.

#ifndef KCACHE_CLIENT_CLIENT_IMPL_H_
#define KCACHE_CLIENT_CLIENT_IMPL_H_

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/src/acquirer.h"
#include "client/src/fork_guard.h"
#include "client/src/invalidator.h"
#include "client/src/memo.h"
#include "client/src/runtime.h"
#include "client/src/session.h"
#include "client/src/state.h"
#include "client/src/uploader.h"
#include "contract/invalidation_hub.h"
#include "contract/mutex.h"
#include "kcache/client.h"

namespace kcache::internal {

class ClientImpl final : public SessionDelegate, public std::enable_shared_from_this<ClientImpl> {
 public:
  using KernelDone = std::function<void(absl::StatusOr<std::shared_ptr<KernelState>>)>;
  using ContextDone = std::function<void(absl::StatusOr<std::shared_ptr<ContextState>>)>;
  using ArtifactDone = std::function<void(absl::StatusOr<std::shared_ptr<ArtifactState>>)>;

  ClientImpl(ClientOptions options, std::shared_ptr<Runtime> runtime);
  ~ClientImpl() override;

  // ---- any thread
  void Connect(std::function<void(absl::Status)> done);
  void Close();
  bool forked() const { return fork_guard_.forked(); }
  // FORKED, or BLOCKING_IN_LISTENER when a call that waits would wait for this very thread.
  // `for_daemon`: it waits for the daemon, which a use scope must not.
  absl::Status CheckMayWait(bool for_daemon) const;
  const ClientOptions& options() const { return options_; }
  Runtime& runtime() { return *runtime_; }

  // The memoized kernel, if any. The fast path: no call, no queue.
  std::shared_ptr<KernelState> FindKernel(const KernelRequest& request);
  void Acquire(const KernelRequest& request, KernelDone done);
  // Starts all of them before any is answered, so that they leave in one message.
  void AcquireAll(std::span<const KernelRequest> requests,
                  std::function<void(size_t, absl::StatusOr<std::shared_ptr<KernelState>>)> done);
  void ForgetKernels();
  void AcquireArtifact(const Program& program, v1::Acquire acquire, DeviceId device,
                       ArtifactDone done);
  void ListDevices(std::function<void(absl::StatusOr<DeviceList>)> done);
  // Clear or destroy.
  void Operate(v1::ClientEvent event, std::function<void(absl::StatusOr<OperationReport>)> done);

  absl::StatusOr<std::shared_ptr<DeviceSlot>> Slot(const DeviceId& device);
  // The living context on a device, opened if need be.
  void Context(const DeviceId& device, ContextDone done);

  Registration OnDeviceDestroy(DeviceListener listener);
  Registration OnClearAll(ClearListener listener);
  Registration OnAnyInvalidation(std::function<absl::Status(const v1::Invalidate&)> listener);

  void OpenedUse();
  void ClosedUse();

  // A lease or pin has lost its last holder.
  void ReleaseLease(std::shared_ptr<ContextState> context, v1::LeaseRef lease);
  void ReleasePin(const Digest& artifact);

  std::shared_ptr<BufferState> MemoizedScratch(const DeviceId& device, const std::string& tag,
                                               uint64_t bytes);
  void MemoizeScratch(const DeviceId& device, const std::string& tag,
                      std::shared_ptr<BufferState> scratch);

  SessionInfo session_info() const;
  ClientStatistics statistics() const;
  std::atomic<uint64_t>& memo_hits() { return memo_hits_; }
  void Problem(const absl::Status& problem) const;

  // ---- SessionDelegate, on the executor
  void OnContextInfo(const v1::ContextInfo& info) override;
  void OnInvalidate(const v1::Invalidate& event) override;
  void OnNeedSource(uint64_t request_id, const std::string& program_digest) override;
  void OnUnclaimedGrant(const v1::Grant& grant) override;
  void OnResumed() override;
  void OnSessionLost(const absl::Status& why) override;
  void OnProblem(const absl::Status& problem) override;

 private:
  struct Lease {
    uint64_t context;
    uint32_t slot;
    uint32_t incarnation;
    friend auto operator<=>(const Lease&, const Lease&) = default;
  };

  static MemoKey KeyOf(const KernelRequest& request);
  absl::StatusOr<Acquirer::Ask> AskOf(const KernelRequest& request) const;
  absl::StatusOr<std::shared_ptr<KernelState>> Adopt(const v1::Grant& grant, uint64_t asked_order);
  void Context(const DeviceId& device, Time patience, ContextDone done);
  void AdoptArtifact(const v1::Grant& grant, DeviceId device, ArtifactDone done);
  void SendRelease(v1::ClientEvent release, const Lease& lease);
  void OnStreamBroken(const std::shared_ptr<ContextState>& context, const absl::Status& why);
  void UpdateInfo();

  const ClientOptions options_;
  const std::shared_ptr<Runtime> runtime_;
  const ForkGuard fork_guard_;
  const std::shared_ptr<Memo> memo_;
  const std::shared_ptr<InvalidationHub> hub_;
  const std::shared_ptr<InvalidationCounters> counters_;
  std::shared_ptr<Invalidator> invalidator_;
  std::shared_ptr<Uploader> uploader_;
  std::shared_ptr<Acquirer> acquirer_;
  std::shared_ptr<Session> session_;

  // On the executor.
  Invalidator::ContextMap contexts_;
  // Releases sent and not yet confirmed: a grant that was asked for before is void.
  std::map<Lease, uint64_t> released_;
  std::map<std::string, uint64_t> released_pins_;
  absl::flat_hash_map<Digest, std::weak_ptr<ArtifactState>> artifacts_;

  mutable Mutex mutex_;
  std::map<std::pair<std::string, uint32_t>, std::shared_ptr<DeviceSlot>> slots_
      ABSL_GUARDED_BY(mutex_);
  std::map<std::pair<DeviceId, std::string>, std::shared_ptr<BufferState>> scratch_
      ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread::id> uses_ ABSL_GUARDED_BY(mutex_);
  SessionInfo info_ ABSL_GUARDED_BY(mutex_);

  std::atomic<size_t> open_uses_{0};
  std::atomic<bool> closed_{false};
  std::atomic<uint64_t> memo_hits_{0};
  std::atomic<uint64_t> releases_{0};
  std::atomic<uint64_t> resumes_{0};
  std::atomic<uint64_t> sessions_lost_{0};
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_CLIENT_IMPL_H_
