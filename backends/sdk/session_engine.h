// One session in this host: its buffers, images, queues and leases, and the commands it sends.
//
// Commands are taken in the order of the stream. Each is checked against reflection, limits and
// leases first; a refused one is counted, reported and does not stop later ones. A session's buffers
// are its own: no other session can name them.
//
// Threads: Handle() by one thread at a time (the stream's); everything else by any.

#ifndef KCACHE_BACKENDS_SDK_SESSION_ENGINE_H_
#define KCACHE_BACKENDS_SDK_SESSION_ENGINE_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "backends/sdk/host.h"

namespace kcache::backend {

class SessionEngine : public std::enable_shared_from_this<SessionEngine> {
 public:
  SessionEngine(Host* host, uint64_t id, ExecutionPeer peer, std::shared_ptr<ReplySink> sink);
  ~SessionEngine();

  uint64_t id() const { return id_; }

  // Takes one message's commands. The message is kept alive as long as a command needs its bytes.
  void Handle(std::shared_ptr<v1::ExecutionRequest> request);

  // Closed: nothing more of this session is admitted.
  AdmissionGate* gate() { return &gate_; }
  // Its stream has gone: what it announced will not come any more.
  void MarkDetached() { detached_.store(true); }
  bool detached() const { return detached_.load(); }
  ReplySink* sink() const { return sink_.get(); }

  // Every queue it has made, until now.
  std::vector<std::shared_ptr<QueueEngine>> Queues() const;
  uint64_t Admitted(uint32_t queue) const;
  v1::SessionPositions Positions() const;
  uint64_t buffers() const;
  v1::SessionUsage Usage() const;
  uint64_t in_flight() const;

  // After its gate is closed: waits for its work, then releases what it left.
  v1::EndSessionReply Sweep(Deadline deadline);

 private:
  // A piece of device memory under the client's id.
  struct Memory {
    MemoryHandle handle = 0;
    uint64_t bytes = 0;
    LedgerId ledger = 0;
    bool image = false;
    bool pinned = false;
    std::string scratch_tag{};  // not empty: whatever block the tag has now
  };
  struct BoundLease {
    uint32_t incarnation = 0;
    std::shared_ptr<Slot> slot;
  };

  void HandleOne(const std::shared_ptr<v1::ExecutionRequest>& request, const v1::Command& command);
  // Commands without a queue.
  void Create(const v1::CreateBuffer& create);
  void CreateImage(const v1::CreateImage& create);
  void ReleaseMemory(uint64_t id);
  void Bind(const v1::BindLease& bind);
  void Scratch(const v1::AcquireScratch& scratch);
  void EndGroup(const std::string& group);
  void Answer(uint64_t request_id, const absl::StatusOr<bool>& yes);
  // Commands of a queue.
  void Launch(QueueEngine* queue, const v1::Launch& launch);
  void Write(QueueEngine* queue, const std::shared_ptr<v1::ExecutionRequest>& keep,
             const v1::WriteBuffer& write);
  void Read(QueueEngine* queue, const v1::ReadBuffer& read);
  void Copy(QueueEngine* queue, const v1::CopyBuffer& copy);
  void Fill(QueueEngine* queue, const v1::FillBuffer& fill);
  void CopyImage(QueueEngine* queue, const v1::CopyImage& copy);
  void Synchronize(QueueEngine* queue, const v1::Synchronize& synchronize);

  absl::StatusOr<std::shared_ptr<QueueEngine>> QueueFor(uint32_t number);
  absl::Status CheckLaunch(const v1::Launch& launch, Slot* slot, LaunchCommand* command,
                           absl::InlinedVector<KernelArgument, 16>* arguments);
  absl::StatusOr<std::shared_ptr<Slot>> LeasedSlot(uint32_t slot, uint32_t incarnation) const;
  absl::StatusOr<Memory> FindMemory(uint64_t id) const;
  void ReportUnknownMemory() const;
  absl::StatusOr<Memory> FindBuffer(uint64_t id) const;
  absl::Status CheckRange(const Memory& memory, uint64_t id, uint64_t offset, uint64_t bytes) const;
  absl::StatusOr<Ledger::Reservation> ReserveMemory(uint64_t id, uint64_t bytes,
                                                    const std::string& label) const;
  absl::StatusOr<MemoryHandle> AllocateWithFallback(uint64_t bytes, const std::string& group,
                                                    bool* fell_back);
  absl::Status CheckInFlight(const QueueEngine& queue, uint64_t count) const;
  void Refuse(QueueEngine* queue, const absl::Status& why, uint64_t count = 1);
  void RefuseLaunch(QueueEngine* queue, const v1::Launch& launch, const absl::Status& why);
  void SendDone(uint64_t request_id, const absl::Status& status, const QueueEngine* queue = nullptr,
                bool fell_back = false);
  void SendReadFailed(uint64_t request_id, const absl::Status& why);
  void AfterInFlight(std::function<void()> then);

  Host* const host_;
  const uint64_t id_;
  const ExecutionPeer peer_;
  const std::shared_ptr<ReplySink> sink_;
  AdmissionGate gate_;
  std::atomic<bool> detached_{false};

  mutable Mutex mutex_;
  absl::flat_hash_map<uint32_t, std::shared_ptr<QueueEngine>> queues_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, Memory> memory_ ABSL_GUARDED_BY(mutex_);
  uint64_t device_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t pinned_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable std::atomic<uint32_t> unknown_memory_{0};

  // The stream's thread alone.
  std::vector<BoundLease> bound_;  // by slot
  std::set<std::string> fallen_groups_;
  absl::InlinedVector<KernelArgument, 16> arguments_;
  std::vector<QueueEngine*> touched_;
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_SESSION_ENGINE_H_
