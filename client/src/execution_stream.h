// The execution stream of one context: commands go out in batches, replies come back, and a
// teardown can stop new uses and learn how far each queue had got.
//
//   kIdle ──first command──► kOpen ──End(why), or the transport closes──► kEnded
//
// Batching. While nothing is held back, a command leaves at once; after that, commands gather and
// leave when enough of them are there, when somebody waits for the device (a synchronize, a read,
// an allocation), or at the next tick a fraction of a millisecond later. So a lone launch is not
// delayed, and a pipeline pays the cost of a message once for hundreds of launches.
//
// Sequence numbers count queue commands from 1, a repeated launch once per repetition, as the host
// counts them.
//
// Bounds. At most about three quarters of the host's max_commands_in_flight commands are
// unfinished; the stream slips in synchronizes of its own to learn what is finished. At most
// kMaxBacklogBytes wait for the transport. A caller over a bound waits; nothing else here blocks.
//
// Gates. Each lease has one. The same lock orders launches and the closing of gates: once
// CloseGates has returned, nothing is appended under a closed gate, and Positions() covers all that
// was. A gate that use scopes hold open closes with the last of them.
//
// Threads: any. Callbacks run without a lock, on the thread that brought the reply or ended the
// stream. Ownership: shared; the transport's observer refers to it weakly.

#ifndef KCACHE_CLIENT_EXECUTION_STREAM_H_
#define KCACHE_CLIENT_EXECUTION_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/src/command_encoder.h"
#include "client/src/runtime.h"
#include "client/src/scheduling.h"
#include "client/src/transport.h"
#include "contract/mutex.h"
#include "kcache/launch.h"
#include "kcache/v1/execution.pb.h"

namespace kcache::internal {

// Whether launches under one lease are accepted. Guarded by its stream's lock.
struct LeaseGate {
  enum class State : uint8_t { kOpen, kClosing, kClosed };

  State state = State::kOpen;
  bool bound = false;  // the host has been told of the lease
  uint32_t uses = 0;   // open use scopes
  absl::Status why;    // kClosing, kClosed
  v1::LeaseRef lease;
};

class ExecutionStream : public std::enable_shared_from_this<ExecutionStream> {
 public:
  static constexpr uint32_t kMaxQueues = 1024;  // the host's own limit is lower
  static constexpr size_t kMaxBacklogBytes = 32u << 20;

  struct Target {
    std::string address;  // "unix:/…"
    v1::AttachSession attach;
    std::string device;  // for messages: "OpenCL:0"
  };
  using Positions = std::vector<v1::QueuePosition>;
  using Done = std::function<void(absl::Status)>;
  using CreateDone = std::function<void(absl::StatusOr<bool>)>;  // fell back?
  using AnswerDone = std::function<void(absl::StatusOr<bool>)>;

  ExecutionStream(Target target, std::shared_ptr<Runtime> runtime);
  ~ExecutionStream();

  // ---- commands on a queue
  absl::Status Launch(uint32_t queue, LeaseGate* gate, std::span<const WireArgument> arguments,
                      const LaunchConfig& config);
  absl::Status Write(uint32_t queue, uint64_t buffer, uint64_t offset, std::string_view data);
  absl::Status Enqueue(const v1::Command& command);  // copy, fill, copy_image
  // `out` stays valid until `done`.
  absl::Status Read(uint32_t queue, uint64_t buffer, uint64_t offset, std::span<std::byte> out,
                    Done done);
  void Synchronize(uint32_t queue, Done done);
  void SynchronizeAll(Done done);
  void Flush();

  // ---- the session's things in the context. Ids are never reused.
  uint64_t NewBufferId();
  // create_buffer, create_image or scratch; its request id is set here.
  void Create(v1::Command command, CreateDone done);
  void ReleaseBuffer(uint64_t buffer);
  void EndGroup(const std::string& group);
  void Ask(v1::Command command, AnswerDone done);  // first_n, first_shape

  // ---- leases
  absl::Status OpenUse(LeaseGate* gate);
  void CloseUse(LeaseGate* gate);
  bool Admits(const LeaseGate& gate) const;
  // Stops new uses; `quiet` runs once no use scope holds any of these gates open: inside the call,
  // or on the thread that closes the last scope. Gates stay valid until then.
  void CloseGates(std::span<LeaseGate* const> gates, const absl::Status& why,
                  std::function<void()> quiet);
  // How many use scopes hold closing gates open.
  uint32_t UsesHoldingOut() const;
  // Sends what is gathered, and says how far every used queue has got.
  Positions SubmitAll();

  // The context is gone. What is outstanding fails with `why`, and so does everything later; the
  // first reason wins.
  void End(const absl::Status& why);
  absl::Status ended() const;
  // Called once, when the transport fails by itself. Set before the first command.
  void set_on_broken(std::function<void(absl::Status)> on_broken);

  uint64_t launches() const;

 private:
  class Observer;
  enum class State : uint8_t { kIdle, kOpen, kEnded };

  struct QueueState {
    uint64_t sequence = 0;   // of the last command appended
    uint64_t marked = 0;     // sequence when the last marker was appended
    uint64_t completed = 0;  // known to be finished
    uint64_t asked = 0;      // sequence when the caller last asked for the outcome
    absl::Status failure;    // first since the last synchronize
  };

  // How far queues had got when a request was appended: finished when its reply comes.
  using Snapshot = std::vector<std::pair<uint32_t, uint64_t>>;

  struct Pending {
    enum class Kind : uint8_t { kMarker, kSynchronize, kRead, kCreate, kAnswer };
    Kind kind = Kind::kMarker;
    bool all_queues = false;
    uint32_t queue = 0;
    Snapshot snapshot;
    Done done;           // kSynchronize, kRead
    CreateDone created;  // kCreate, kAnswer
    std::span<std::byte> out;
  };

  // Calls to make once the lock is gone.
  struct Outcome {
    Done done;
    CreateDone created;
    absl::Status status;
    bool yes = false;
    void Deliver();
  };

  void OnReply(const v1::ExecutionReply& reply);
  void OnWritten();
  void OnClosed(const absl::Status& why);
  void OnAttached(const v1::Attached& attached);
  void OnRead(const v1::ReadData& read);
  void OnDone(const v1::Done& done);
  void OnAnswer(const v1::Answer& answer);
  void OnQueueError(const v1::QueueError& error);
  void Tick();

  absl::Status CheckQueue(uint32_t queue) const;
  // Waits until `count` more sequence numbers may be given out. The stream may have ended, and a
  // gate may have closed, when it returns.
  void AwaitRoom(uint64_t count) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasRoom(uint64_t count) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  QueueState* Queue(uint32_t queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void CountCommand(uint32_t queue, QueueState* state, uint32_t repeat)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AppendMarker(uint32_t queue, QueueState* state) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  uint64_t AddPending(Pending pending) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Snapshot TakeSnapshot(bool all, uint32_t queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Complete(const Snapshot& snapshot) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status TakeFailure(const Pending& pending, const absl::Status& reported)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What a synchronize of an ended stream answers: why it ended, if that took anything away that
  // nobody has asked for yet.
  absl::Status EndedOutcome(bool all, uint32_t queue) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AppendPlain(const v1::Command& command) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Seals the batch when one more command would make it too large for a message.
  void MakeRoomInBatch(size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  enum class Urgency { kGather, kNow };
  // Ends a critical section in which something was appended: unlocks, and sends or arms the tick.
  void UnlockAndSend(Urgency urgency) ABSL_UNLOCK_FUNCTION(mutex_);
  void StartTransport(std::string first);

  const Target target_;
  const std::shared_ptr<Runtime> runtime_;

  mutable Mutex mutex_;
  CondVar room_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kIdle;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ExecutionTransport> wire_ ABSL_GUARDED_BY(mutex_);
  std::function<void(absl::Status)> on_broken_ ABSL_GUARDED_BY(mutex_);

  // Outgoing.
  std::string batch_ ABSL_GUARDED_BY(mutex_);
  size_t batch_commands_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<std::string> sealed_ ABSL_GUARDED_BY(mutex_);
  size_t sealed_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool urgent_ ABSL_GUARDED_BY(mutex_) = false;  // the batch must not wait for the tick
  bool ticking_ ABSL_GUARDED_BY(mutex_) = false;

  // Limits; the host says better ones when it has attached us.
  uint64_t max_in_flight_ ABSL_GUARDED_BY(mutex_) = 1024;
  size_t max_message_bytes_ ABSL_GUARDED_BY(mutex_) = 256u << 10;

  std::map<uint32_t, QueueState> queues_ ABSL_GUARDED_BY(mutex_);
  QueueState* last_queue_ ABSL_GUARDED_BY(mutex_) = nullptr;
  uint32_t last_queue_number_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t launches_ ABSL_GUARDED_BY(mutex_) = 0;

  absl::flat_hash_map<uint64_t, Pending> pending_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_request_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_buffer_ ABSL_GUARDED_BY(mutex_) = 0;

  uint32_t uses_holding_out_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<std::function<void()>> quiet_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_EXECUTION_STREAM_H_
