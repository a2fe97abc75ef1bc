// Destroying devices and contexts, clearing handles, retiring ids: every path that releases anything
// goes through here, so that none can release without telling.
//
// A Teardown is the destroy of one device (all its contexts) or of one context; operations that ask
// for the same one while it runs join it: two ids, one pair of messages. Clears take turns, and skip
// contexts that drain; a destroy that meets a clear takes over what the clear would have released.
//
// Order of a destroy (guarantees G1, G2, G3, G12): DRAINING and stale builds; BEFORE; wait; fence;
// release, newest first; exit verified; RELEASED; AFTER; then the result with the first failure.
//
// A context that is LOST outside any destroy is told at once, and so is the way free for the next one.
// Its process is looked after here until it is gone: nobody is told of that any more, but a destroy of
// its device waits for it, and one that cannot be ended is reported as STUCK.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_TEARDOWN_H_
#define KCACHE_DAEMON_CORE_TEARDOWN_H_

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/acquire.h"
#include "daemon/core/context_table.h"
#include "daemon/core/core.h"
#include "daemon/core/drain.h"
#include "daemon/core/notifier.h"
#include "daemon/core/operation.h"

namespace kcache::core {

class Teardowns {
 public:
  Teardowns(Core* core, ContextTable* contexts, Acquirer* acquirer, OperationTable* operations)
      : core_(core),
        contexts_(contexts),
        acquirer_(acquirer),
        operations_(operations),
        notifier_(core) {}
  // What is under way is abandoned; no drain is called any more.
  ~Teardowns();

  struct DestroyArguments {
    std::vector<DeviceRecord*> devices;
    std::string domain{};  // of this trust domain only; empty: all
    bool stay_down = false;
    bool physical = false;
    absl::Duration grace;
    std::string reason;
    SessionId initiator = 0;
  };
  void Destroy(const OperationPtr& operation, DestroyArguments arguments);

  struct ClearArguments {
    std::string family{};
    std::optional<uint32_t> index{};
    std::string domain{};  // empty: all
    bool artifacts = false;
    absl::Duration grace;
    SessionId initiator = 0;
  };
  void Clear(const OperationPtr& operation, ClearArguments arguments);

  // Retires the global ids. Nothing is released, nothing is waited for.
  void Reset(const OperationPtr& operation);

  // An idle context goes, in the same step that found it idle.
  void Retire(Context* context);

  void OnAck(Session* session, const v1::Ack& ack);
  void OnNack(Session* session, const v1::Nack& nack);
  // The session has ended: hosts fence it, then drains count it as gone.
  void OnSessionEnded(Session* session);
  void OnContextLost(Context* context);
  void OnContextExit(Context* context, const HostExit& exit);

  // Grace within the limits: 0 is the default.
  absl::Duration Grace(uint64_t grace_ms) const;

 private:
  // One context's part of a teardown or clear, and who was told.
  struct Part {
    std::shared_ptr<ContextDrain> drain;
    std::vector<SessionId> told;
  };
  struct Teardown {
    DeviceRecord* device = nullptr;
    bool whole_device = true;
    bool stay_down = false;
    std::string down_reason;
    Announcement what;
    std::vector<Part> parts;
    std::vector<SessionId> others;  // told, without a context of theirs in it
    std::vector<OperationPtr> operations;
    size_t open = 0;                // parts, and teardowns it waits for
    std::vector<std::shared_ptr<Teardown>> waits_for;
    std::vector<std::function<void()>> on_done;
    bool done = false;
  };
  using TeardownPtr = std::shared_ptr<Teardown>;

  // An operation and the teardowns it consists of.
  struct Destroying {
    OperationPtr operation;
    DestroyArguments arguments;
    std::vector<TeardownPtr> teardowns;
    size_t open = 0;
  };

  struct Clearing {
    OperationPtr operation;
    ClearArguments arguments;
    Announcement what;
    std::vector<Part> parts;
    std::vector<SessionId> others;
    size_t open = 0;
  };

  TeardownPtr Begin(DeviceRecord* device, const DestroyArguments& arguments,
                    const OperationPtr& operation);
  void AddPart(const TeardownPtr& teardown, const std::shared_ptr<Context>& context,
               absl::Duration grace);
  void AddDrain(const TeardownPtr& teardown, const std::shared_ptr<Context>& context,
                ContextDrain::Kind kind, absl::Duration grace, std::vector<SessionId> told);
  // `teardown` ends after `other`, and with its failures.
  void WaitFor(const TeardownPtr& teardown, const TeardownPtr& other);
  // The exit of a LOST context's process, under way or begun now.
  TeardownPtr ExitOf(const std::shared_ptr<Context>& context);
  // LOST outside any destroy.
  void Lose(Context* context);
  static bool Stuck(const Teardown& teardown);
  // UP again when it was DOWN for a STUCK host alone, and none is left.
  void RaiseIfFree(DeviceRecord* device);
  void PartDone(const TeardownPtr& teardown, size_t index);
  void OneLess(const TeardownPtr& teardown);
  void FinishDestroying(const std::shared_ptr<Destroying>& destroying);
  void AddResults(const Teardown& teardown, bool joined, v1::OperationResult* result) const;
  void Report(const std::shared_ptr<Destroying>& destroying, std::vector<OpenHolder> holders);

  void NextClear();
  void RunClear(const std::shared_ptr<Clearing>& clearing);
  void FinishClear(const std::shared_ptr<Clearing>& clearing);
  void ClearArtifacts(const ClearArguments& arguments);

  void DescribeParts(const std::vector<const Part*>& parts, v1::OperationUpdate* update) const;
  void Register(const std::shared_ptr<ContextDrain>& drain);
  void Unregister(const std::shared_ptr<ContextDrain>& drain);
  static void AddOutcome(const DrainOutcome& outcome, v1::OperationResult* result);

  Core* const core_;
  ContextTable* const contexts_;
  Acquirer* const acquirer_;
  OperationTable* const operations_;
  Notifier notifier_;
  std::set<std::shared_ptr<Destroying>> destroying_;  // under way
  std::map<DeviceRecord*, TeardownPtr> devices_;      // whole devices under way
  std::map<ContextId, TeardownPtr> single_contexts_;  // single contexts under way
  std::map<ContextId, TeardownPtr> exits_;            // of LOST contexts, under way
  std::map<ContextId, std::vector<std::shared_ptr<ContextDrain>>> drains_;
  std::deque<std::shared_ptr<Clearing>> clears_;  // the front one runs
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_TEARDOWN_H_
