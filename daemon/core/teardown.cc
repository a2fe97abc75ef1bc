#include "daemon/core/teardown.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"
#include "daemon/core/errors.h"

namespace kcache::core {
namespace {

constexpr int kMaxWaitingListed = 16;

std::vector<SessionId> Sorted(const std::set<SessionId>& sessions) {
  return {sessions.begin(), sessions.end()};
}

}  // namespace

// A teardown keeps its drains, what it waits for and who waits for it, and their callbacks keep the
// teardown: such a ring ends with the teardown, or here.
Teardowns::~Teardowns() {
  std::vector<TeardownPtr> teardowns;
  for (const auto& destroying : destroying_) {
    teardowns.insert(teardowns.end(), destroying->teardowns.begin(), destroying->teardowns.end());
  }
  for (const auto& [context, exit] : exits_) teardowns.push_back(exit);
  for (const TeardownPtr& teardown : teardowns) teardown->on_done.clear();
  for (const auto& [context, drains] : drains_) {
    for (const auto& drain : drains) drain->Abandon();
  }
}

absl::Duration Teardowns::Grace(uint64_t grace_ms) const {
  const Limits& limits = core_->options.limits;
  if (grace_ms == 0) return limits.grace;
  if (grace_ms > static_cast<uint64_t>(absl::ToInt64Milliseconds(limits.max_grace))) {
    return limits.max_grace;
  }
  return absl::Milliseconds(static_cast<int64_t>(grace_ms));
}

void Teardowns::Register(const std::shared_ptr<ContextDrain>& drain) {
  drains_[drain->context()->id()].push_back(drain);
}

void Teardowns::Unregister(const std::shared_ptr<ContextDrain>& drain) {
  auto found = drains_.find(drain->context()->id());
  if (found == drains_.end()) return;
  std::erase(found->second, drain);
  if (found->second.empty()) drains_.erase(found);
}

// ---- destroy ------------------------------------------------------------------------------------

void Teardowns::Destroy(const OperationPtr& operation, DestroyArguments arguments) {
  if (arguments.stay_down) {
    // Durable before draining: a daemon that restarts in between must not reopen the card.
    DurableState next = core_->durable;
    for (const DeviceRecord* device : arguments.devices) {
      next.down[device->name.ToString()] = arguments.reason;
    }
    if (absl::Status saved = core_->deps.state->Save(next); !saved.ok()) {
      operations_->Fail(operation, Annotate(saved, "while recording that the device stays down; "
                                                   "nothing was destroyed"));
      return;
    }
    core_->durable = std::move(next);
  }
  operation->state = Operation::State::kRunning;
  auto destroying = std::make_shared<Destroying>();
  destroying->operation = operation;
  destroying->arguments = std::move(arguments);
  destroying->open = 1;  // this function's own
  destroying_.insert(destroying);
  operation->describe = [this, weak = std::weak_ptr<Destroying>(destroying)](
                            v1::OperationUpdate* update) {
    auto self = weak.lock();
    if (self == nullptr) return;
    std::vector<const Part*> parts;
    for (const TeardownPtr& teardown : self->teardowns) {
      for (const Part& part : teardown->parts) parts.push_back(&part);
    }
    DescribeParts(parts, update);
  };
  for (DeviceRecord* device : destroying->arguments.devices) {
    auto running = devices_.find(device);
    TeardownPtr teardown;
    if (running != devices_.end()) {
      teardown = running->second;  // two operations, one pair of messages
      operation->result.set_joined(true);
    } else if (!destroying->arguments.domain.empty()) {
      const std::string& domain = destroying->arguments.domain;
      const auto context = device->contexts.find(domain);
      if (context != device->contexts.end()) {
        const auto single = single_contexts_.find(context->second->id());
        if (single != single_contexts_.end()) {
          teardown = single->second;
          operation->result.set_joined(true);
        }
      } else if (std::none_of(device->exiting.begin(), device->exiting.end(),
                              [&](const auto& one) { return one->domain().name == domain; })) {
        continue;  // nothing of this domain's is there
      }
    }
    if (teardown == nullptr) teardown = Begin(device, destroying->arguments, operation);
    if (destroying->arguments.stay_down) {
      teardown->stay_down = true;
      teardown->down_reason = destroying->arguments.reason;
    }
    teardown->operations.push_back(operation);
    destroying->teardowns.push_back(teardown);
    ++destroying->open;
    teardown->on_done.push_back([this, destroying] { FinishDestroying(destroying); });
  }
  operations_->Changed(operation.get());
  core_->deps.executor->Post([this, destroying] { FinishDestroying(destroying); });
}

Teardowns::TeardownPtr Teardowns::Begin(DeviceRecord* device, const DestroyArguments& arguments,
                                        const OperationPtr& operation) {
  auto teardown = std::make_shared<Teardown>();
  teardown->device = device;
  teardown->whole_device = arguments.domain.empty();
  teardown->what = {.operation_id = operation->id,
                    .kind = v1::INVALIDATE_DEVICE,
                    .family = device->name.framework,
                    .index = device->name.index,
                    .reason = arguments.reason,
                    .grace = arguments.grace,
                    .initiator = arguments.initiator};
  teardown->open = 1;  // this function's own, until everything is set up

  // Step 1: out of circulation, all at once, before anybody is told.
  std::vector<std::shared_ptr<Context>> contexts;
  if (teardown->whole_device) {
    devices_[device] = teardown;
    if (device->state == v1::DEVICE_UP) device->MoveTo(v1::DEVICE_DRAINING_STATE, arguments.reason);
    for (auto& [domain, context] : device->contexts) {
      auto single = single_contexts_.find(context->id());
      if (single == single_contexts_.end()) {
        contexts.push_back(context);
        continue;
      }
      WaitFor(teardown, single->second);  // it is going already
    }
  } else {
    auto context = device->contexts.find(arguments.domain);
    if (context != device->contexts.end()) {
      contexts.push_back(context->second);
      single_contexts_[context->second->id()] = teardown;
    }
  }
  for (const auto& context : device->exiting) {
    if (teardown->whole_device || context->domain().name == arguments.domain) {
      WaitFor(teardown, ExitOf(context));
    }
  }
  for (const auto& context : contexts) {
    if (context->stuck()) continue;
    context->BeginDraining(
        MakeError(v1::DEVICE_DESTROYED, context->Describe() + " was destroyed meanwhile"));
    auto clears = drains_.find(context->id());
    if (clears != drains_.end()) {
      for (const auto& drain : clears->second) drain->Supersede();
    }
  }

  // Step 2: BEFORE, to everybody concerned.
  for (const auto& context : contexts) AddPart(teardown, context, arguments.grace);
  std::set<SessionId> told;
  for (const Part& part : teardown->parts) told.insert(part.told.begin(), part.told.end());
  std::set<SessionId> others;
  core_->sessions.ForEach([&](Session& session) {
    if (told.contains(session.id) || !session.Wants(device->name.framework)) return;
    if (!teardown->whole_device && session.domain.name != arguments.domain) return;
    others.insert(session.id);
  });
  teardown->others = Sorted(others);
  notifier_.Before(teardown->what, nullptr, teardown->others, {});

  // Step 3: wait; the drains go on from there.
  for (Part& part : teardown->parts) {
    if (part.drain->context()->stuck()) {
      part.drain->StartStuck();
      continue;
    }
    std::vector<SessionId> holders;
    for (const auto& [id, leases] : part.drain->context()->holders()) holders.push_back(id);
    part.drain->Start(holders);
  }
  core_->deps.executor->Post([this, teardown] { OneLess(teardown); });
  return teardown;
}

void Teardowns::AddPart(const TeardownPtr& teardown, const std::shared_ptr<Context>& context,
                        absl::Duration grace) {
  std::set<SessionId> holders, concerned;
  if (!context->stuck()) {  // else their leases have been dropped
    for (const auto& [id, leases] : context->holders()) holders.insert(id);
  }
  concerned = holders;
  concerned.insert(context->introduced().begin(), context->introduced().end());
  core_->sessions.ForEach([&](Session& session) {
    if (session.domain.name == context->domain().name && session.Wants(context->device().family())) {
      concerned.insert(session.id);
    }
  });
  notifier_.Before(teardown->what, context.get(), Sorted(concerned), holders);
  AddDrain(teardown, context, ContextDrain::Kind::kDestroy, grace, Sorted(concerned));
}

void Teardowns::AddDrain(const TeardownPtr& teardown, const std::shared_ptr<Context>& context,
                         ContextDrain::Kind kind, absl::Duration grace,
                         std::vector<SessionId> told) {
  const size_t index = teardown->parts.size();
  ++teardown->open;
  Part part;
  part.told = std::move(told);
  part.drain = std::make_shared<ContextDrain>(
      core_, context, kind, teardown->what.operation_id, grace, core_->options.limits.finish,
      ContextDrain::Slots{},
      [this, teardown] {
        for (const OperationPtr& operation : teardown->operations) {
          operations_->Changed(operation.get());
        }
      },
      [] {}, [this, teardown, index] { PartDone(teardown, index); });
  Register(part.drain);
  teardown->parts.push_back(std::move(part));
}

void Teardowns::WaitFor(const TeardownPtr& teardown, const TeardownPtr& other) {
  ++teardown->open;
  teardown->waits_for.push_back(other);
  other->on_done.push_back([this, teardown] { OneLess(teardown); });
}

Teardowns::TeardownPtr Teardowns::ExitOf(const std::shared_ptr<Context>& context) {
  TeardownPtr& exit = exits_[context->id()];
  if (exit != nullptr) return exit;
  exit = std::make_shared<Teardown>();
  exit->device = core_->devices.Find(context->device()).value();
  exit->whole_device = false;
  exit->what.operation_id = operations_->NewId();
  AddDrain(exit, context, ContextDrain::Kind::kExit, absl::ZeroDuration(), {});
  const auto& drain = exit->parts.front().drain;
  if (context->stuck()) {
    drain->StartStuck();
  } else {
    drain->StartExit();
  }
  return exit;
}

// Step 5 for one context: it is RELEASED, LOST or STUCK; its sessions are told.
void Teardowns::PartDone(const TeardownPtr& teardown, size_t index) {
  Part& part = teardown->parts[index];
  Context* context = part.drain->context();
  const DrainOutcome& outcome = part.drain->outcome();
  Unregister(part.drain);
  // Clears that this destroy took over: a host that is STUCK never exits, and they must not wait for it.
  if (auto found = drains_.find(context->id()); found != drains_.end()) {
    const auto clears = found->second;
    for (const auto& clear : clears) clear->OnSupersederDone();
  }
  acquirer_->DropAllLeases(context);
  if (outcome.stuck) {
    context->set_stuck();
    core_->deps.events->Emit("host-stuck", outcome.failures.back(),
                             {{"context", std::to_string(context->id())},
                              {"device", context->device().ToString()},
                              {"domain", context->domain().name}});
  } else {
    contexts_->Remove(context, /*crashed=*/outcome.lost, "died while it was being destroyed");
  }
  single_contexts_.erase(context->id());
  exits_.erase(context->id());
  notifier_.After(teardown->what, context, part.told, outcome.unacked, outcome.lost);
  OneLess(teardown);
}

void Teardowns::OneLess(const TeardownPtr& teardown) {
  if (--teardown->open != 0) return;
  DeviceRecord* device = teardown->device;
  if (teardown->whole_device) {
    devices_.erase(device);
    if (teardown->stay_down) {
      device->MoveTo(v1::DEVICE_DOWN_STATE, teardown->down_reason);
    } else if (Stuck(*teardown)) {
      device->MoveTo(v1::DEVICE_DOWN_STATE, "a device host could not be ended");
    } else if (device->state == v1::DEVICE_DRAINING_STATE) {
      device->ComeBack();
    }
  }
  RaiseIfFree(device);
  notifier_.After(teardown->what, nullptr, teardown->others, {}, false);
  teardown->done = true;
  auto on_done = std::move(teardown->on_done);
  teardown->on_done.clear();
  for (auto& call : on_done) call();
}

bool Teardowns::Stuck(const Teardown& teardown) {
  const auto stuck = [](const Part& part) { return part.drain->outcome().stuck; };
  return std::any_of(teardown.parts.begin(), teardown.parts.end(), stuck) ||
         std::any_of(teardown.waits_for.begin(), teardown.waits_for.end(),
                     [](const TeardownPtr& other) { return Stuck(*other); });
}

void Teardowns::RaiseIfFree(DeviceRecord* device) {
  if (device->state != v1::DEVICE_DOWN_STATE || devices_.contains(device) ||
      core_->durable.down.contains(device->name.ToString())) {
    return;  // in use as a device, still being destroyed, or kept down by an operator
  }
  for (const auto& [domain, context] : device->contexts) {
    if (context->stuck()) return;
  }
  for (const auto& context : device->exiting) {
    if (context->stuck()) return;
  }
  device->ComeBack();
  core_->deps.events->Emit(
      "device-up", device->name.ToString() + " is UP again: what could not be ended has gone", {});
}

void Teardowns::AddOutcome(const DrainOutcome& outcome, v1::OperationResult* result) {
  result->set_acked(result->acked() + outcome.acked);
  result->set_gone(result->gone() + outcome.gone);
  result->set_unacked(result->unacked() + static_cast<uint32_t>(outcome.unacked.size()));
  result->set_released(result->released() + static_cast<uint32_t>(outcome.released.size()));
  for (const std::string& failure : outcome.failures) result->add_failures(failure);
  result->set_waited_us(std::max(
      result->waited_us(), static_cast<uint64_t>(absl::ToInt64Microseconds(outcome.waited))));
}

void Teardowns::AddResults(const Teardown& teardown, bool, v1::OperationResult* result) const {
  std::set<SessionId> told(teardown.others.begin(), teardown.others.end());
  for (const Part& part : teardown.parts) {
    told.insert(part.told.begin(), part.told.end());
    AddOutcome(part.drain->outcome(), result);
    result->set_contexts(result->contexts() + 1);
  }
  for (const TeardownPtr& other : teardown.waits_for) AddResults(*other, true, result);
  result->set_told_before(result->told_before() + static_cast<uint32_t>(told.size()));
}

void Teardowns::FinishDestroying(const std::shared_ptr<Destroying>& destroying) {
  if (--destroying->open != 0) return;
  destroying_.erase(destroying);
  std::vector<std::string> nodes;
  for (const DeviceRecord* device : destroying->arguments.devices) {
    nodes.insert(nodes.end(), device->info.device_nodes().begin(),
                 device->info.device_nodes().end());
  }
  if (!destroying->arguments.physical || nodes.empty()) {
    Report(destroying, {});
    return;
  }
  core_->deps.census->Holders(std::move(nodes),
                              [this, destroying](std::vector<OpenHolder> holders) {
                                Report(destroying, std::move(holders));
                              });
}

void Teardowns::Report(const std::shared_ptr<Destroying>& destroying,
                       std::vector<OpenHolder> holders) {
  v1::OperationResult& result = destroying->operation->result;
  bool stuck = false, has_nodes = false, ours = false;
  for (const TeardownPtr& teardown : destroying->teardowns) {
    AddResults(*teardown, false, &result);
    stuck |= Stuck(*teardown);
  }
  for (const DeviceRecord* device : destroying->arguments.devices) {
    has_nodes |= !device->info.device_nodes().empty();
  }
  for (const OpenHolder& holder : holders) {
    if (holder.ours) {
      ours = true;
      result.add_failures(absl::StrCat("process ", holder.pid, " (", holder.name,
                                       ") of kcache still has ", holder.node, " open"));
      continue;
    }
    v1::ForeignHolder* foreign = result.add_foreign();
    foreign->set_pid(holder.pid);
    foreign->set_name(holder.name);
    foreign->set_uid(holder.uid);
    foreign->set_node(holder.node);
  }
  if (stuck) {
    result.set_device_free("no");
  } else if (!has_nodes) {
    result.set_device_free("not applicable");
  } else if (!destroying->arguments.physical) {
    result.set_device_free("not checked");
  } else {
    result.set_device_free(ours ? "no" : "yes");
  }
  if (stuck || ours) {
    operations_->Fail(destroying->operation,
                      MakeError(v1::STUCK, absl::StrCat("a process of kcache still holds the device: ",
                                                        result.failures_size() == 0
                                                            ? std::string("unknown")
                                                            : result.failures(0))));
    return;
  }
  result.set_ok(true);
  operations_->Done(destroying->operation);
}

void Teardowns::Retire(Context* context) {
  auto device = core_->devices.Find(context->device());
  if (!device.ok()) return;
  OperationPtr operation = operations_->Create(
      "", "retire", absl::StrCat((*device)->name.ToString(), " of ", context->domain().name), Peer{},
      "kcached itself");
  Destroy(operation, {.devices = {*device},
                      .domain = context->domain().name,
                      .grace = core_->options.limits.grace,
                      .reason = "idle"});
}

// ---- clear --------------------------------------------------------------------------------------

void Teardowns::Clear(const OperationPtr& operation, ClearArguments arguments) {
  auto clearing = std::make_shared<Clearing>();
  clearing->operation = operation;
  clearing->arguments = std::move(arguments);
  clears_.push_back(clearing);
  if (clears_.size() == 1) RunClear(clearing);
}

void Teardowns::NextClear() {
  clears_.pop_front();
  if (!clears_.empty()) RunClear(clears_.front());
}

void Teardowns::RunClear(const std::shared_ptr<Clearing>& clearing) {
  const OperationPtr& operation = clearing->operation;
  const ClearArguments& arguments = clearing->arguments;
  operation->state = Operation::State::kRunning;
  if (core_->deps.history != nullptr) {
    core_->deps.history->Record("clear-running", {{"operation", ToHex(operation->id)}});
  }
  clearing->what = {.operation_id = operation->id,
                    .kind = v1::INVALIDATE_CLEAR,
                    .family = arguments.family,
                    .index = arguments.index,
                    .reason = "cleared",
                    .grace = arguments.grace,
                    .initiator = arguments.initiator};
  operation->describe = [this, weak = std::weak_ptr<Clearing>(clearing)](
                            v1::OperationUpdate* update) {
    auto self = weak.lock();
    if (self == nullptr) return;
    std::vector<const Part*> parts;
    for (const Part& part : self->parts) parts.push_back(&part);
    DescribeParts(parts, update);
  };
  clearing->open = 1;

  // Out of circulation first, everywhere: what is acquired from now on is new.
  struct Doomed {
    std::shared_ptr<Context> context;
    ContextDrain::Slots slots;
    std::set<SessionId> holders;
  };
  std::vector<Doomed> doomed;
  for (DeviceRecord* device : core_->devices.InScope(arguments.family, arguments.index)) {
    for (auto& [domain, context] : device->contexts) {
      if (!arguments.domain.empty() && domain != arguments.domain) continue;
      if (context->state() != ContextState::kAlive) continue;
      Doomed one{.context = context, .slots = {}, .holders = {}};
      for (const Handle* handle : context->DoomAll()) {
        one.slots.emplace_back(handle->slot, handle->incarnation);
        one.holders.insert(handle->holders.begin(), handle->holders.end());
      }
      doomed.push_back(std::move(one));
    }
  }

  std::set<SessionId> told;
  for (Doomed& one : doomed) {
    if (one.slots.empty()) continue;
    const size_t index = clearing->parts.size();
    ++clearing->open;
    Part part;
    part.told = Sorted(one.holders);
    part.drain = std::make_shared<ContextDrain>(
        core_, one.context, ContextDrain::Kind::kClear, operation->id, arguments.grace,
        core_->options.limits.finish, std::move(one.slots),
        [this, clearing] { operations_->Changed(clearing->operation.get()); },
        [this, clearing, index] {
          const ContextDrain& drain = *clearing->parts[index].drain;
          acquirer_->DropLeases(drain.context(), drain.slots());
        },
        [this, clearing, index] {
          Unregister(clearing->parts[index].drain);
          FinishClear(clearing);
        });
    notifier_.Before(clearing->what, one.context.get(), part.told, one.holders);
    told.insert(one.holders.begin(), one.holders.end());
    Register(part.drain);
    clearing->parts.push_back(std::move(part));
  }
  std::set<SessionId> others;
  core_->sessions.ForEach([&](Session& session) {
    if (told.contains(session.id)) return;
    if (!arguments.domain.empty() && session.domain.name != arguments.domain) return;
    const bool pinned = arguments.artifacts && !session.pins.empty();
    if (session.Wants(arguments.family) || pinned) others.insert(session.id);
  });
  clearing->others = Sorted(others);
  notifier_.Before(clearing->what, nullptr, clearing->others, {});

  size_t next = 0;
  for (const Doomed& one : doomed) {
    if (next == clearing->parts.size()) break;
    if (clearing->parts[next].drain->context() != one.context.get()) continue;
    clearing->parts[next++].drain->Start(Sorted(one.holders));
  }
  operations_->Changed(operation.get());
  core_->deps.executor->Post([this, clearing] { FinishClear(clearing); });
}

void Teardowns::FinishClear(const std::shared_ptr<Clearing>& clearing) {
  if (--clearing->open != 0) return;
  if (clearing->arguments.artifacts) ClearArtifacts(clearing->arguments);
  v1::OperationResult& result = clearing->operation->result;
  std::set<SessionId> told(clearing->others.begin(), clearing->others.end());
  // One AFTER for all contexts together: a clear is over when all of it is.
  for (const Part& part : clearing->parts) {
    notifier_.After(clearing->what, part.drain->context(), part.told,
                    part.drain->outcome().unacked, part.drain->outcome().lost);
    told.insert(part.told.begin(), part.told.end());
    AddOutcome(part.drain->outcome(), &result);
    result.set_contexts(result.contexts() + 1);
  }
  notifier_.After(clearing->what, nullptr, clearing->others, {}, false);
  result.set_told_before(static_cast<uint32_t>(told.size()));
  result.set_device_free("not applicable");
  result.set_ok(true);
  operations_->Done(clearing->operation);
  NextClear();
}

void Teardowns::ClearArtifacts(const ClearArguments& arguments) {
  core_->builds.BumpEpoch();
  if (arguments.family.empty()) {
    core_->deps.artifacts->Clear();
    return;
  }
  for (const ArtifactPtr& artifact : core_->deps.artifacts->List()) {
    const std::string family = artifact->framework.substr(0, artifact->framework.find('/'));
    if (family == arguments.family) core_->deps.artifacts->Remove(artifact->key);
  }
}

// ---- reset --------------------------------------------------------------------------------------

void Teardowns::Reset(const OperationPtr& operation) {
  operation->state = Operation::State::kRunning;
  const Announcement what{.operation_id = operation->id,
                          .kind = v1::INVALIDATE_RESET,
                          .family = "",
                          .index = std::nullopt,
                          .reason = "global device ids are retired",
                          .grace = absl::ZeroDuration(),
                          .initiator = 0};
  std::vector<SessionId> told;
  core_->sessions.ForEach([&](Session& session) {
    if (session.subscribed || !session.contexts.empty()) told.push_back(session.id);
  });
  notifier_.Before(what, nullptr, told, {});
  core_->devices.RetireIds();
  notifier_.After(what, nullptr, told, {}, false);
  operation->result.set_told_before(static_cast<uint32_t>(told.size()));
  operation->result.set_device_free("not applicable");
  operation->result.set_ok(true);
  operations_->Done(operation);
}

// ---- what sessions and hosts say ----------------------------------------------------------------

void Teardowns::OnAck(Session* session, const v1::Ack& ack) {
  Context* context = contexts_->Find(ack.context_id());
  if (context == nullptr) return;  // released already, or of another life
  context->NotePositions(session->id, ack.positions());
  auto found = drains_.find(ack.context_id());
  if (found == drains_.end()) return;
  const auto drains = found->second;  // one may finish and unregister
  for (const auto& drain : drains) {
    if (drain->operation_id() == ack.operation_id()) drain->OnAck(session->id);
  }
}

void Teardowns::OnNack(Session* session, const v1::Nack& nack) {
  auto found = drains_.find(nack.context_id());
  if (found == drains_.end()) return;
  const auto drains = found->second;
  for (const auto& drain : drains) {
    if (drain->operation_id() == nack.operation_id()) {
      drain->OnNack(session->id, std::string(Utf8Prefix(nack.why(), 256)));
    }
  }
}

void Teardowns::OnSessionEnded(Session* session) {
  const SessionId id = session->id;
  std::vector<Context*> contexts;
  for (ContextId context_id : session->contexts) {
    if (Context* context = contexts_->Find(context_id); context != nullptr) {
      contexts.push_back(context);
    }
  }
  std::vector<v1::Release> releases;
  for (const auto& [key, lease] : session->leases) {
    v1::Release release;
    release.set_context_id(key.context);
    release.mutable_lease()->set_slot(key.slot);
    release.mutable_lease()->set_incarnation(lease.incarnation);
    releases.push_back(std::move(release));
  }
  for (const v1::Release& release : releases) acquirer_->Release(session, release);
  for (Context* context : contexts) {
    context->EndSession(id, [this, id, context_id = context->id()] {
      auto found = drains_.find(context_id);
      if (found == drains_.end()) return;
      const auto drains = found->second;
      for (const auto& drain : drains) drain->OnHolderGone(id);
    });
  }
}

void Teardowns::OnContextLost(Context* context) {
  // Else a destroy is under way: it ends with the process, and its AFTER says so.
  if (context->state() != ContextState::kAlive) return;
  if (auto found = drains_.find(context->id()); found != drains_.end()) {
    const auto clears = found->second;
    for (const auto& clear : clears) clear->OnContextLost();
  }
  const std::shared_ptr<Context> self = context->shared_from_this();
  context->Abandon(context->loss());
  Lose(context);
  contexts_->MoveToExiting(context, StdView(context->loss().message()));
  ExitOf(self);
}

void Teardowns::OnContextExit(Context* context, const HostExit& exit) {
  auto found = drains_.find(context->id());
  bool going = false;
  if (found != drains_.end()) {
    const auto drains = found->second;
    for (const auto& drain : drains) {
      going |= drain->kind() != ContextDrain::Kind::kClear;
      drain->OnContextExit(exit);
    }
  }
  if (going) return;  // that operation's AFTER says it; or it has been told before
  if (context->state() != ContextState::kCreating && context->state() != ContextState::kAlive) {
    contexts_->Remove(context, /*crashed=*/false, "");  // a STUCK one went after all
    if (auto device = core_->devices.Find(context->device()); device.ok()) RaiseIfFree(*device);
    return;
  }
  Lose(context);
  contexts_->Remove(context, /*crashed=*/true, StdView(context->loss().message()));
}

// An event of its own, which stands for BEFORE and AFTER.
void Teardowns::Lose(Context* context) {
  const absl::Status why = context->loss();
  context->MoveTo(ContextState::kLost);
  ++core_->counters.host_crashes;
  std::set<SessionId> told(context->introduced().begin(), context->introduced().end());
  for (const auto& [id, leases] : context->holders()) told.insert(id);
  acquirer_->DropAllLeases(context);
  core_->deps.events->Emit("context-lost", std::string(StdView(why.message())),
                           {{"context", std::to_string(context->id())},
                            {"device", context->device().ToString()},
                            {"domain", context->domain().name}});
  notifier_.Lost(*context, Sorted(told), why, operations_->NewId());
}

void Teardowns::DescribeParts(const std::vector<const Part*>& parts,
                              v1::OperationUpdate* update) const {
  using Stage = ContextDrain::Stage;
  Stage slowest = Stage::kDone;
  const absl::Duration now = core_->deps.clock->Now();
  for (const Part* part : parts) {
    slowest = std::min(slowest, part->drain->stage());
    update->set_holders(update->holders() + part->drain->holders());
    const auto& waiting = part->drain->waiting();
    update->set_waiting(update->waiting() + static_cast<uint32_t>(waiting.size()));
    for (const auto& [id, wait] : waiting) {
      if (update->waiting_for_size() >= kMaxWaitingListed) break;
      v1::WaitingHolder* holder = update->add_waiting_for();
      holder->set_session_id(id);
      holder->set_waiting_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(now - wait.since)));
      holder->set_nack(wait.nack);
      const Session* session = core_->sessions.Find(id);
      if (session == nullptr) continue;
      holder->set_pid(session->peer.pid);
      holder->set_client_name(session->name);
    }
  }
  switch (slowest) {
    case Stage::kWaiting:
      update->set_phase("waiting");
      break;
    case Stage::kFencing:
      update->set_phase("fencing");
      break;
    case Stage::kReleasing:
      update->set_phase("releasing");
      break;
    case Stage::kDone:
      update->set_phase("releasing");
      break;
  }
}

}  // namespace kcache::core
