// What a session does when it is told that handles go away.
//
//   BEFORE ──► drop memo ──► listeners ──► close gates ──► use scopes end ──► submit ──► Ack,
//   handled AFTER  ──► drop memo ──► context ended (destroy) ──► listeners ──► handled
//
// Listeners run on their own thread, everything else on the executor. The kernels that a BEFORE
// concerns are those of that moment: what is granted later is new, and stays.
//
// A listener hears of an operation (of a destroy: and device) once before and once after, however
// many contexts it has; LOST, MISSED and COVER records, which come when things are gone, are told
// as both in a row.
//
// Every step has a revision of its own, and a session sees them grow: what is not larger than the
// last one is a repetition.
//
// Threads: on the executor.

#ifndef KCACHE_CLIENT_INVALIDATOR_H_
#define KCACHE_CLIENT_INVALIDATOR_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "client/src/memo.h"
#include "client/src/runtime.h"
#include "client/src/session.h"
#include "client/src/state.h"
#include "contract/invalidation_hub.h"

namespace kcache::internal {

struct InvalidationCounters {
  std::atomic<uint64_t> steps{0};
  std::atomic<uint64_t> duplicates{0};
  std::atomic<uint64_t> acks{0};
};

class Invalidator : public std::enable_shared_from_this<Invalidator> {
 public:
  using ContextMap = std::map<uint64_t, std::shared_ptr<ContextState>>;
  using Problem = std::function<void(const absl::Status&)>;

  // All but the counters outlive the client's Close; nothing is touched after Stop.
  Invalidator(std::shared_ptr<Runtime> runtime, std::shared_ptr<Memo> memo,
              std::shared_ptr<InvalidationHub> hub, std::shared_ptr<InvalidationCounters> counters,
              Duration slow_listener, Problem problem);

  void Start(std::shared_ptr<Session> session, ContextMap* contexts);
  void Stop();

  void OnInvalidate(const v1::Invalidate& event);
  // Everything the session held is void.
  void OnSessionLost(const absl::Status& why);

  // Whether a destroy of this device is under way, as far as this session has been told.
  bool Draining(const DeviceName& device) const;

  // `then` runs on the executor: at the end of the destroy of this device that is under way, as far
  // as this session has been told; else after `backoff`; never later than `at_most`.
  void AfterDrain(const DeviceName& device, Duration backoff, Duration at_most,
                  std::function<void()> then);

  // Once all that has been told so far has reached the listeners: the first failure of a listener
  // of this operation.
  void WhenTold(const std::string& operation, std::function<void(absl::Status)> then);

  // How many listeners are registered: with none, steps need no thread.
  std::atomic<int>& listener_count() { return listener_count_; }

 private:
  // (operation, family, index or -1)
  using OperationKey = std::tuple<std::string, std::string, int64_t>;
  using StepKey = std::pair<std::string, uint64_t>;  // (operation, context)

  // An operation whose BEFORE has been told and whose AFTER has not.
  struct OpenOperation {
    v1::Invalidate before;
    int contexts = 0;
    std::vector<std::function<void()>> waiting;
  };

  struct Step {
    v1::Invalidate event;
    uint64_t epoch = 0;
    std::shared_ptr<ContextState> context;
    std::vector<std::shared_ptr<KernelState>> kernels;
    Timers::Id slow = 0;
    bool listeners_done = false;
    bool done = false;
  };
  using StepPtr = std::shared_ptr<Step>;

  static OperationKey KeyOf(const v1::Invalidate& event);
  static absl::Status Why(const v1::Invalidate& event);

  void Before(const StepPtr& step, std::vector<v1::Invalidate>* told);
  void After(const v1::Invalidate& event, std::vector<v1::Invalidate>* told);
  void Lost(const v1::Invalidate& event, std::vector<v1::Invalidate>* told);
  void Covered(const v1::Invalidate& event, std::vector<v1::Invalidate>* told);

  void DropMemo(const v1::Invalidate& event);
  std::vector<std::shared_ptr<ContextState>> InScope(const v1::Invalidate& event) const;
  void EndContext(const std::shared_ptr<ContextState>& context, const absl::Status& why);
  static std::vector<std::shared_ptr<KernelState>> KernelsOf(ContextState* context);
  static void CloseGates(const std::vector<std::shared_ptr<KernelState>>& kernels,
                         ContextState* context, const absl::Status& why,
                         std::function<void()> quiet);

  void Tell(std::vector<v1::Invalidate> events, const StepPtr& step);
  void OnTold(const StepPtr& step);
  void Acknowledge(const StepPtr& step);
  void ArmSlow(const StepPtr& step);
  void Handled(const StepPtr& step);

  const std::shared_ptr<Runtime> runtime_;
  const std::shared_ptr<Memo> memo_;
  const std::shared_ptr<InvalidationHub> hub_;
  const std::shared_ptr<InvalidationCounters> counters_;
  const Duration slow_listener_;
  const Problem problem_;
  std::shared_ptr<Session> session_;
  ContextMap* contexts_ = nullptr;

  uint64_t epoch_ = 1;  // of the session; steps of an earlier one acknowledge nothing
  uint64_t last_revision_ = 0;
  v1::Phase last_phase_ = v1::PHASE_UNSPECIFIED;
  std::set<uint64_t> in_progress_;  // revisions
  std::map<OperationKey, OpenOperation> open_;
  std::map<StepKey, StepPtr> before_;                      // until AFTER
  std::map<std::string, absl::Status> listener_failures_;  // of operations this process asked for
  int telling_ = 0;                                        // tasks on the listeners' thread
  std::atomic<int> listener_count_{0};
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_INVALIDATOR_H_
