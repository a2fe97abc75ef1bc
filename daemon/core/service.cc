#include "daemon/core/service.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"
#include "daemon/core/errors.h"
#include "daemon/core/service_impl.h"

namespace kcache::core {

std::unique_ptr<Service> Service::Create(Options options, Dependencies dependencies) {
  return std::make_unique<ServiceImpl>(std::move(options), dependencies);
}

ServiceImpl::ServiceImpl(Options options, Dependencies dependencies)
    : core_(std::move(options), dependencies),
      contexts_(&core_, this),
      acquirer_(&core_, &contexts_),
      operations_(&core_),
      teardowns_(&core_, &contexts_, &acquirer_, &operations_),
      started_(dependencies.clock->Now()) {
  if (const History* history = core_.deps.history) {
    history->Record("daemon", {{"instance", ToHex(core_.instance)}});
  }
  core_.sessions.set_on_end([this](Session& session, std::string_view why) {
    core_.deps.events->Emit("session-ended", absl::StrCat(session.Describe(), ": ", AbslView(why)),
                            {{"session", std::to_string(session.id)}});
    acquirer_.SessionEnded(&session);
    teardowns_.OnSessionEnded(&session);
    if (core_.options.domain_policy == DomainPolicy::kSession) {
      core_.sources.ForgetDomain(session.domain.name);
      contexts_.ForgetDomain(session.domain.name);
    }
  });
}

ServiceImpl::~ServiceImpl() = default;

void ServiceImpl::Start(Function<void()> ready) {
  core_.durable = core_.deps.state->Load();
  core_.sessions.StartReaping();
  RetireIdle();
  Probe([this, ready = std::move(ready)]() mutable {
    core_.serving = true;
    ready();
  });
}

void ServiceImpl::Probe(Function<void()> done) {
  // A card that is down stays closed: what probes would open is not run.
  std::set<std::string> skip;
  for (DeviceRecord* device : core_.devices.All()) {
    if (device->state == v1::DEVICE_DOWN_STATE && !device->info.device_nodes().empty()) {
      skip.insert(device->name.framework);
    }
  }
  core_.deps.prober->Probe(
      {skip.begin(), skip.end()},
      [this, done = std::move(done)](std::vector<v1::ProbeReport> reports) mutable {
        std::map<DeviceRecord*, v1::DeviceState> before;
        for (DeviceRecord* device : core_.devices.All()) before[device] = device->state;
        std::vector<DeviceRecord*> changed = core_.devices.Apply(reports, core_.durable.down);
        acquirer_.OnProbed();
        core_.builds.OnProbed();
        if (core_.serving) core_.deps.workers->Renew();
        for (const auto& [device, state] : before) {
          const bool is_away = device->state == v1::DEVICE_UNAVAILABLE;
          if (is_away == (state == v1::DEVICE_UNAVAILABLE)) continue;
          const std::string name = device->name.ToString();
          core_.deps.events->Emit(
              is_away ? "device-unavailable" : "device-returned",
              is_away ? absl::StrCat(name, ": ", device->reason) : name, {{"device", name}});
        }
        for (DeviceRecord* device : changed) {
          if (device->contexts.empty()) continue;
          OperationPtr operation = operations_.Create("", "driver-change", device->name.ToString(),
                                                      Peer{}, "kcached itself");
          teardowns_.Destroy(operation,
                             {.devices = {device},
                              .grace = core_.options.limits.grace,
                              .reason = device->away.empty() ? "its driver or compiler changed"
                                                             : device->away});
        }
        done();
      });
}

void ServiceImpl::Shutdown(Function<void()> done) {
  core_.shutting_down = true;
  OperationPtr operation =
      operations_.Create("", "shutdown", "all devices", Peer{}, "kcached itself");
  operation->on_done = [done = std::make_shared<Function<void()>>(std::move(done))](
                           const Operation&) { (*done)(); };
  std::vector<DeviceRecord*> devices;
  for (DeviceRecord* device : core_.devices.All()) {
    if (!device->contexts.empty() || !device->exiting.empty()) devices.push_back(device);
  }
  teardowns_.Destroy(operation, {.devices = std::move(devices),
                                 .grace = core_.options.limits.shutdown_grace,
                                 .reason = "the daemon is shutting down"});
}

void ServiceImpl::RetireIdle() {
  const absl::Duration limit = core_.options.limits.host_idle;
  const absl::Duration now = core_.deps.clock->Now();
  std::vector<Context*> idle;
  contexts_.ForEach([&](Context& context) {
    if (context.Idle() && now - context.idle_since() >= limit) idle.push_back(&context);
  });
  for (Context* context : idle) teardowns_.Retire(context);
  core_.deps.executor->RunAfter(std::max(limit / 4, absl::Milliseconds(250)),
                                [this] { RetireIdle(); });
}

// ---- streams ------------------------------------------------------------------------------------

std::unique_ptr<SessionStream> ServiceImpl::OpenStream(const Peer& peer,
                                                       SessionEndpoint* endpoint) {
  return std::make_unique<SessionStreamImpl>(this, peer, endpoint);
}

void ServiceImpl::StreamClosed(std::unique_ptr<SessionStream> stream) {
  auto* closed = static_cast<SessionStreamImpl*>(stream.get());
  Session* session = core_.sessions.Find(closed->session_id());
  if (session == nullptr || session->endpoint != closed->endpoint()) return;
  // Away: a mere disconnect waits for the reconnect or the TTL.
  session->endpoint = nullptr;
  session->close_pending = session->wake_pending = false;
  session->last_heard = core_.deps.clock->Now();
  if (session->process_exited) core_.sessions.End(session, "its process has exited");
}

void ServiceImpl::ProcessExited(const Peer& peer) {
  if (peer.pid == 0) return;
  std::vector<Session*> ended;
  core_.sessions.ForEach([&](Session& session) {
    if (session.peer.pid == peer.pid && session.peer.uid == peer.uid) ended.push_back(&session);
  });
  for (Session* session : ended) {
    session->process_exited = true;
    // What it sent before it died is still read; then the stream closes.
    if (session->endpoint == nullptr) core_.sessions.End(session, "its process has exited");
  }
}

// ---- contexts -----------------------------------------------------------------------------------

void ServiceImpl::OnContextLost(Context* context) { teardowns_.OnContextLost(context); }

void ServiceImpl::OnContextExit(Context* context, const HostExit& exit) {
  teardowns_.OnContextExit(context, exit);
}

void ServiceImpl::OnPhysicalLoss(Context* context, const absl::Status& why) {
  auto device = core_.devices.Find(context->device());
  if (!device.ok()) return;
  for (DeviceRecord* same : core_.devices.Physical(**device)) {
    for (auto& [domain, other] : same->contexts) {
      if (other.get() == context || other->host() == nullptr) continue;
      other->OnUnresponsive(StdView(why.message()));
      other->host()->Kill("the whole card was lost");
    }
  }
}

void ServiceImpl::OnContextUsage(Context*) {}

// ---- operations ---------------------------------------------------------------------------------

uint64_t ServiceImpl::StartClear(const Peer& who, const v1::AdminClearRequest& request,
                                 OperationWatcher watcher) {
  std::string scope = request.family().empty() ? "all" : request.family();
  if (request.has_index()) absl::StrAppend(&scope, ":", request.index());
  if (request.artifacts()) absl::StrAppend(&scope, " with artifacts");
  OperationPtr operation = operations_.Create("", "clear", scope, who, AskedBy(who));
  const uint64_t watch = operations_.Watch(operation, std::move(watcher));
  std::optional<uint32_t> index;
  if (request.has_index()) index = request.index();
  if (index && request.family().empty()) {
    operations_.Fail(operation, BadRequest(absl::StrCat(
                                    "clear of index ", *index, " names no family; an index alone "
                                    "means nothing")));
    return watch;
  }
  if (!request.family().empty() && core_.devices.InScope(request.family(), index).empty()) {
    operations_.Fail(operation,
                     core_.devices.Find(DeviceName{request.family(), index.value_or(0)}).status());
    return watch;
  }
  teardowns_.Clear(operation, {.family = request.family(),
                               .index = index,
                               .domain = "",
                               .artifacts = request.artifacts(),
                               .grace = teardowns_.Grace(request.grace_ms())});
  return watch;
}

uint64_t ServiceImpl::StartDestroy(const Peer& who, const v1::AdminDestroyRequest& request,
                                   OperationWatcher watcher) {
  auto name = DeviceName::FromProto(request.device());
  std::string scope = name.ok() ? name->ToString() : request.device().framework();
  if (request.physical()) absl::StrAppend(&scope, " (the card)");
  if (request.stay_down()) absl::StrAppend(&scope, ", staying down");
  OperationPtr operation = operations_.Create("", "destroy-device", scope, who, AskedBy(who));
  const uint64_t watch = operations_.Watch(operation, std::move(watcher));
  if (!name.ok()) {
    operations_.Fail(operation, name.status());
    return watch;
  }
  auto device = core_.devices.Find(*name);
  if (!device.ok()) {
    operations_.Fail(operation, device.status());
    return watch;
  }
  teardowns_.Destroy(operation,
                     {.devices = request.physical() ? core_.devices.Physical(**device)
                                                    : std::vector<DeviceRecord*>{*device},
                      .domain = "",
                      .stay_down = request.stay_down(),
                      .physical = request.physical(),
                      .grace = teardowns_.Grace(request.grace_ms()),
                      .reason = absl::StrCat("destroyed by ", AskedBy(who))});
  return watch;
}

uint64_t ServiceImpl::StartReset(const Peer& who, OperationWatcher watcher) {
  OperationPtr operation = operations_.Create("", "reset-devices", "all", who, AskedBy(who));
  const uint64_t watch = operations_.Watch(operation, std::move(watcher));
  teardowns_.Reset(operation);
  return watch;
}

uint64_t ServiceImpl::StartDeviceUp(const Peer& who, const v1::DeviceUpRequest& request,
                                    OperationWatcher watcher) {
  auto name = DeviceName::FromProto(request.device());
  OperationPtr operation =
      operations_.Create("", "device-up", name.ok() ? name->ToString() : "?", who, AskedBy(who));
  const uint64_t watch = operations_.Watch(operation, std::move(watcher));
  if (!name.ok()) {
    operations_.Fail(operation, name.status());
    return watch;
  }
  auto device = core_.devices.Find(*name);
  if (!device.ok()) {
    operations_.Fail(operation, device.status());
    return watch;
  }
  if ((*device)->state == v1::DEVICE_DRAINING_STATE) {
    operations_.Fail(operation, MakeError(v1::DEVICE_DRAINING,
                                          absl::StrCat(name->ToString(),
                                                       " is being destroyed; try again after that")));
    return watch;
  }
  DurableState next = core_.durable;
  next.down.erase((*device)->name.ToString());
  if (absl::Status saved = core_.deps.state->Save(next); !saved.ok()) {
    operations_.Fail(operation, Annotate(saved, "while recording that the device is up"));
    return watch;
  }
  core_.durable = std::move(next);
  if (request.clear_hold()) contexts_.ClearHolds(*device);
  if ((*device)->state == v1::DEVICE_DOWN_STATE) (*device)->ComeBack();
  operation->state = Operation::State::kRunning;
  // Its driver may have changed while it was down.
  Probe([this, operation] {
    operation->result.set_device_free("not applicable");
    operation->result.set_ok(true);
    operations_.Done(operation);
  });
  return watch;
}

uint64_t ServiceImpl::StartRescan(const Peer& who, OperationWatcher watcher) {
  OperationPtr operation = operations_.Create("", "rescan", "all", who, AskedBy(who));
  const uint64_t watch = operations_.Watch(operation, std::move(watcher));
  operation->state = Operation::State::kRunning;
  Probe([this, operation] {
    operation->result.set_device_free("not applicable");
    operation->result.set_ok(true);
    operations_.Done(operation);
  });
  return watch;
}

uint64_t ServiceImpl::Watch(const std::string& operation_id, OperationWatcher watcher) {
  return operations_.WatchById(operation_id, std::move(watcher));
}

void ServiceImpl::Unwatch(uint64_t watch) { operations_.Unwatch(watch); }

}  // namespace kcache::core
