// One queue of one session: numbers commands, hands them to the driver in order, and learns when they
// are done.
//
// A command's sequence number is its place in the queue, from 1; a refused one counts, too. Errors
// surface at the next Synchronize (the first one wins) and are pushed as they happen. What a command
// needs until it is done (data to write, memory to release) is kept by an Await behind it; one thread
// a queue waits for the driver's markers, in order.
//
// Threads: Submit… and Await are called by one thread at a time (the session's); the counters and
// UsesSlot by any. Driver calls for a queue are serialized by its mutex.

#ifndef KCACHE_BACKENDS_SDK_QUEUE_ENGINE_H_
#define KCACHE_BACKENDS_SDK_QUEUE_ENGINE_H_

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/sdk/driver.h"
#include "contract/mutex.h"

namespace kcache::backend {

using Deadline = std::chrono::steady_clock::time_point;

class QueueEngine {
 public:
  // Hears what the driver reports at a marker. Called on the queue's thread.
  using OnError = std::function<void(uint64_t sequence, const absl::Status&)>;

  // `mark_every`: beyond this many commands without an Await, one is added, so that progress is
  // known.
  static absl::StatusOr<std::unique_ptr<QueueEngine>> Create(Context* context, uint32_t number,
                                                             OnError on_error,
                                                             uint64_t mark_every = kMarkEvery);
  ~QueueEngine();  // idle by then, or the process ends

  uint32_t number() const { return number_; }

  // Gives the next `count` sequence numbers to a command and runs `call` under the queue's
  // serialization. Returns what the call returned; a failure is noted for the next Synchronize.
  absl::Status Submit(uint64_t count, absl::FunctionRef<absl::Status(QueueHandle)> call);
  // The same for a launch of `slot`.
  absl::Status SubmitLaunch(uint32_t slot, uint64_t count,
                            absl::FunctionRef<absl::Status(QueueHandle)> call);
  // A refused command: counted, and noted for the next Synchronize.
  uint64_t Refuse(const absl::Status& why, uint64_t count = 1);

  // Calls `done` when everything submitted until now is done, with what its marker reported. In
  // order with other Awaits of this queue.
  void Await(std::function<void(const absl::Status&)> done);
  // Makes what was submitted start, and sees to it that its outcome will be known.
  void Flush();

  // The first failure since the last call, and forgets it.
  absl::Status TakeFirstError();

  uint64_t admitted() const;
  uint64_t completed() const;
  // Whether the driver has something with a marker behind it that is not known to be done.
  bool busy() const;
  // Whether something that is not known to be done uses the slot.
  bool UsesSlot(uint32_t slot) const;
  // False: still busy at the deadline.
  bool WaitIdle(Deadline deadline);

  // Stops the thread and destroys the driver's queue. The queue must be idle.
  absl::Status Close();

 private:
  struct Pending {
    uint64_t sequence = 0;
    MarkerHandle marker = 0;  // 0: could not be recorded; `status` says why
    absl::Status status;
    std::function<void(const absl::Status&)> done;
  };
  static constexpr uint64_t kMarkEvery = 2048;

  QueueEngine(Context* context, uint32_t number, QueueHandle handle, OnError on_error,
              uint64_t mark_every);
  void Run();
  void AwaitLocked(std::function<void(const absl::Status&)> done)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_);
  // Without a marker behind a command nobody would learn that it failed, or never ends. When no marker is
  // under way, records one behind what has none; the queue's thread does so again when it has waited for it.
  void CoverLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(driver_);
  void Note(uint64_t sequence, const absl::Status& status);

  Context* const context_;
  const uint32_t number_;
  const QueueHandle handle_;
  const OnError on_error_;
  const uint64_t mark_every_;

  Mutex driver_;  // serializes driver calls of this queue
  uint64_t last_await_ ABSL_GUARDED_BY(driver_) = 0;

  mutable Mutex mutex_;
  CondVar changed_;
  uint64_t admitted_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t completed_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status first_error_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> last_use_ ABSL_GUARDED_BY(mutex_);  // by slot: sequence number
  std::deque<Pending> pending_ ABSL_GUARDED_BY(mutex_);
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;  // the thread has taken one of pending_
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Mutex closing_;
  bool closed_ ABSL_GUARDED_BY(closing_) = false;
  std::thread thread_;
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_QUEUE_ENGINE_H_
