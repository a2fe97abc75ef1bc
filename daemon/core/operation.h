// An operation: what an operator or an application asked for, as it can be watched.
//
//   QUEUED (clears take turns) ──► RUNNING ──► DONE, with a result that stays for a while
//
// An operation's id carries the daemon's instance, so that one of a former instance is answered
// INTERRUPTED, never success.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_OPERATION_H_
#define KCACHE_DAEMON_CORE_OPERATION_H_

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/core.h"
#include "daemon/core/service.h"
#include "kcache/v1/admin.pb.h"

namespace kcache::core {

struct Operation {
  enum class State { kQueued, kRunning, kDone };

  std::string id;
  std::string kind;   // "destroy-device", "clear", "reset-devices", …
  std::string scope;  // "CUDA:0", "all"
  Peer who;
  std::string asked_by;  // "uid 0 pid 4711", "session …", "kcached itself"
  absl::Duration started;
  State state = State::kQueued;
  v1::OperationResult result;
  // Fills phase, holders and waiting.
  std::function<void(v1::OperationUpdate*)> describe;
  std::function<void(const Operation&)> on_done;
  std::map<uint64_t, OperationWatcher> watchers;
};

using OperationPtr = std::shared_ptr<Operation>;

class OperationTable {
 public:
  explicit OperationTable(Core* core) : core_(core) {}

  // `id` empty: a new one.
  OperationPtr Create(std::string id, std::string kind, std::string scope, const Peer& who,
                      std::string asked_by);
  OperationPtr Find(const std::string& id) const;
  std::string NewId();

  // Adds a watcher, tells it how things are, and returns its id (0 when it has heard the last).
  uint64_t Watch(const OperationPtr& operation, OperationWatcher watcher);
  uint64_t WatchById(const std::string& id, OperationWatcher watcher);
  void Unwatch(uint64_t watch);

  // Tells the watchers of a step. Done also writes the audit line.
  void Changed(Operation* operation);
  void Done(const OperationPtr& operation);
  void Fail(const OperationPtr& operation, const absl::Status& status);

  v1::OperationList List() const;
  bool AnyRunning() const;

 private:
  static constexpr size_t kMaxKept = 256;
  static constexpr absl::Duration kTick = absl::Milliseconds(200);

  v1::OperationUpdate Describe(const Operation& operation) const;
  void Tell(Operation* operation);
  void Tick();

  Core* const core_;
  std::map<std::string, OperationPtr> operations_;
  std::deque<std::string> finished_;
  std::map<uint64_t, std::string> watches_;
  uint64_t next_watch_ = 0;
  bool ticking_ = false;
};

// "session worker (pid 4711)", "uid 0 pid 12".
std::string AskedBy(const Peer& who);

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_OPERATION_H_
