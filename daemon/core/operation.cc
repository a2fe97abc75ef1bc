#include "daemon/core/operation.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::core {
namespace {

constexpr size_t kIdBytes = 16;
constexpr size_t kInstancePrefix = 8;

std::string_view Name(Operation::State state) {
  switch (state) {
    case Operation::State::kQueued:
      return "queued";
    case Operation::State::kRunning:
      return "running";
    case Operation::State::kDone:
      return "done";
  }
  return "?";
}

}  // namespace

std::string AskedBy(const Peer& who) { return absl::StrCat("uid ", who.uid, " pid ", who.pid); }

std::string OperationTable::NewId() {
  return core_->instance.substr(0, kInstancePrefix) +
         core_->deps.random->Bytes(kIdBytes - kInstancePrefix);
}

OperationPtr OperationTable::Create(std::string id, std::string kind, std::string scope,
                                    const Peer& who, std::string asked_by) {
  auto operation = std::make_shared<Operation>();
  operation->id = id.empty() ? NewId() : std::move(id);
  operation->kind = std::move(kind);
  operation->scope = std::move(scope);
  operation->who = who;
  operation->asked_by = std::move(asked_by);
  operation->started = core_->deps.clock->Now();
  operations_[operation->id] = operation;
  if (core_->deps.history != nullptr) {
    core_->deps.history->Record("operation-started", {{"operation", ToHex(operation->id)},
                                                      {"kind", operation->kind},
                                                      {"scope", operation->scope}});
  }
  core_->deps.events->Emit("operation-started",
                           absl::StrCat(operation->kind, " ", operation->scope, ", asked by ",
                                        operation->asked_by),
                           {{"operation", ToHex(operation->id)}});
  return operation;
}

OperationPtr OperationTable::Find(const std::string& id) const {
  auto found = operations_.find(id);
  return found == operations_.end() ? nullptr : found->second;
}

v1::OperationUpdate OperationTable::Describe(const Operation& operation) const {
  v1::OperationUpdate update;
  update.set_operation_id(operation.id);
  update.set_elapsed_ms(static_cast<uint64_t>(
      absl::ToInt64Milliseconds(core_->deps.clock->Now() - operation.started)));
  if (operation.state == Operation::State::kDone) {
    update.set_phase("done");
    *update.mutable_result() = operation.result;
    return update;
  }
  update.set_phase(std::string(Name(operation.state)));
  if (operation.describe) operation.describe(&update);
  return update;
}

uint64_t OperationTable::Watch(const OperationPtr& operation, OperationWatcher watcher) {
  watcher(Describe(*operation));
  if (operation->state == Operation::State::kDone) return 0;
  const uint64_t id = ++next_watch_;
  operation->watchers[id] = std::move(watcher);
  watches_[id] = operation->id;
  if (!ticking_) {
    ticking_ = true;
    core_->deps.executor->RunAfter(kTick, [this] { Tick(); });
  }
  return id;
}

uint64_t OperationTable::WatchById(const std::string& id, OperationWatcher watcher) {
  if (OperationPtr operation = Find(id); operation != nullptr) {
    return Watch(operation, std::move(watcher));
  }
  absl::Status why;
  if (id.size() != kIdBytes) {
    why = MakeError(v1::BAD_REQUEST,
                    absl::StrCat("an operation id has ", kIdBytes, " bytes, this one ", id.size()));
  } else if (id.substr(0, kInstancePrefix) != core_->instance.substr(0, kInstancePrefix)) {
    why = MakeError(v1::INTERRUPTED,
                    absl::StrCat("operation ", ToHex(id),
                                 " belongs to a former instance of the daemon; how it ended is not "
                                 "known"));
  } else {
    why = MakeError(v1::UNKNOWN_OPERATION, absl::StrCat("no operation ", ToHex(id)));
  }
  v1::OperationUpdate update;
  update.set_operation_id(id);
  update.set_phase("done");
  *update.mutable_result()->mutable_error() = ToProto(why);
  watcher(update);
  return 0;
}

void OperationTable::Unwatch(uint64_t watch) {
  auto found = watches_.find(watch);
  if (found == watches_.end()) return;
  if (OperationPtr operation = Find(found->second); operation != nullptr) {
    operation->watchers.erase(watch);
  }
  watches_.erase(found);
}

void OperationTable::Tell(Operation* operation) {
  if (operation->watchers.empty()) return;
  const v1::OperationUpdate update = Describe(*operation);
  const auto watchers = operation->watchers;  // one may unwatch from within
  for (const auto& [id, watcher] : watchers) watcher(update);
}

void OperationTable::Changed(Operation* operation) { Tell(operation); }

void OperationTable::Tick() {
  ticking_ = false;
  if (watches_.empty()) return;
  for (auto& [id, operation] : operations_) Tell(operation.get());
  ticking_ = true;
  core_->deps.executor->RunAfter(kTick, [this] { Tick(); });
}

void OperationTable::Done(const OperationPtr& operation) {
  if (operation->state == Operation::State::kDone) return;
  operation->state = Operation::State::kDone;
  operation->result.set_revision(core_->revision);
  operation->describe = nullptr;
  const v1::OperationResult& result = operation->result;
  if (core_->deps.history != nullptr) {
    core_->deps.history->Record("operation-ended",
                                {{"operation", ToHex(operation->id)},
                                 {"ok", result.ok() ? 1u : 0u},
                                 {"reason", static_cast<uint64_t>(result.error().reason())}});
  }
  std::string outcome;
  if (result.has_error()) {
    outcome = absl::StrCat("failed: ", result.error().message());
  } else if (result.failures_size() != 0) {
    outcome = absl::StrCat("done, with ", result.failures_size(), " failures; first: ",
                           result.failures(0));
  } else {
    outcome = "done";
  }
  core_->deps.events->Audit(operation->asked_by,
                            absl::StrCat(operation->kind, " ", operation->scope), outcome);
  Tell(operation.get());
  for (const auto& [watch, watcher] : operation->watchers) watches_.erase(watch);
  operation->watchers.clear();
  finished_.push_back(operation->id);
  if (finished_.size() > kMaxKept) {
    operations_.erase(finished_.front());
    finished_.pop_front();
  }
  if (operation->on_done) {
    auto on_done = std::move(operation->on_done);
    operation->on_done = nullptr;
    on_done(*operation);
  }
}

void OperationTable::Fail(const OperationPtr& operation, const absl::Status& status) {
  operation->result.set_ok(false);
  *operation->result.mutable_error() = ToProto(status);
  Done(operation);
}

v1::OperationList OperationTable::List() const {
  v1::OperationList list;
  for (const auto& [id, operation] : operations_) {
    v1::OperationSummary* summary = list.add_operations();
    summary->set_operation_id(id);
    summary->set_kind(operation->kind);
    summary->set_scope(operation->scope);
    summary->set_state(std::string(Name(operation->state)));
    summary->set_age_ms(static_cast<uint64_t>(
        absl::ToInt64Milliseconds(core_->deps.clock->Now() - operation->started)));
    summary->set_requested_by(operation->asked_by);
  }
  return list;
}

bool OperationTable::AnyRunning() const {
  for (const auto& [id, operation] : operations_) {
    if (operation->state != Operation::State::kDone) return true;
  }
  return false;
}

}  // namespace kcache::core
