#include "daemon/core/context_table.h"

#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "daemon/core/errors.h"

namespace kcache::core {

absl::StatusOr<std::shared_ptr<Context>> ContextTable::Ensure(DeviceRecord* device,
                                                              const TrustDomain& domain) {
  if (absl::Status usable = DeviceRegistry::CheckUsable(*device); !usable.ok()) return usable;
  auto existing = device->contexts.find(domain.name);
  if (existing != device->contexts.end()) {
    const ContextState state = existing->second->state();
    if (state == ContextState::kCreating || state == ContextState::kAlive) return existing->second;
    return MakeError(v1::DEVICE_DRAINING,
                     absl::StrCat(existing->second->Describe(), " is being destroyed"));
  }
  ContextHistory& history = device->history[domain.name];
  if (history.on_hold) {
    return MakeError(v1::CONTEXT_ON_HOLD,
                     absl::StrCat(device->name.ToString(), " of ", domain.name, " is on hold: ",
                                  history.hold_reason, ". An operator can clear it: kcachectl "
                                  "device-up --clear-hold ", device->name.ToString()));
  }
  // A host runs as the user it serves. Without the power to change uid, a CPU device's native code
  // would run as us for somebody else.
  const bool own = domain.uid == geteuid();
  if (!own && !core_->options.may_change_uid && device->info.is_cpu()) {
    return MakeError(absl::StatusCode::kPermissionDenied, v1::PERMISSION_DENIED,
                     absl::StrCat(device->name.ToString(),
                                  " runs kernels as native code, and this daemon may not run a host "
                                  "as uid ", domain.uid, "; it serves such devices to uid ",
                                  geteuid(), " only"));
  }
  Context::Identity identity;
  identity.id = ++next_id_;
  identity.device = device->name;
  identity.domain = domain;
  identity.generation = ++history.generation;
  identity.instance = core_->instance;
  auto context = std::make_shared<Context>(std::move(identity), device->info, &core_->options,
                                           &core_->deps, &core_->handle_counters, owner_);
  device->contexts[domain.name] = context;
  contexts_[context->id()] = context;
  absl::Duration backoff = absl::ZeroDuration();
  const absl::Duration now = core_->deps.clock->Now();
  std::erase_if(history.crashes, [&](absl::Duration at) {
    return now - at > core_->options.limits.host_crash_window;
  });
  if (history.crashes.size() > 1) {
    // The first restart is at once: a single fault should cost no more than a fresh context does.
    // Later ones keep a distance from the last death, not from who happens to ask when.
    const size_t doubled = std::min<size_t>(history.crashes.size() - 2, 6);
    const absl::Duration distance = core_->options.limits.host_backoff * (1 << doubled);
    backoff = std::max(backoff, history.crashes.back() + distance - now);
  }
  context->Start(backoff);
  return context;
}

Context* ContextTable::Find(uint64_t id) {
  auto found = contexts_.find(id);
  return found == contexts_.end() ? nullptr : found->second.get();
}

void ContextTable::Unlink(const Context& context) {
  auto device = core_->devices.Find(context.device());
  if (device.ok()) {
    auto found = (*device)->contexts.find(context.domain().name);
    if (found != (*device)->contexts.end() && found->second.get() == &context) {
      (*device)->contexts.erase(found);
    }
    std::erase_if((*device)->exiting, [&](const auto& one) { return one.get() == &context; });
  }
  contexts_.erase(context.id());
}

void ContextTable::NoteCrash(const Context& context, std::string_view why) {
  auto device = core_->devices.Find(context.device());
  if (!device.ok()) return;
  const Limits& limits = core_->options.limits;
  ContextHistory& history = (*device)->history[context.domain().name];
  const absl::Duration now = core_->deps.clock->Now();
  std::erase_if(history.crashes,
                [&](absl::Duration at) { return now - at > limits.host_crash_window; });
  history.crashes.push_back(now);
  if (static_cast<int>(history.crashes.size()) < limits.host_crashes_to_hold) return;
  history.on_hold = true;
  history.hold_reason =
      absl::StrCat("died ", history.crashes.size(), " times within ",
                   absl::FormatDuration(limits.host_crash_window), ", last: ", AbslView(why));
  core_->deps.events->Emit("context-on-hold",
                           absl::StrCat((*device)->name.ToString(), " of ", context.domain().name,
                                        ": ", history.hold_reason),
                           {});
}

void ContextTable::MoveToExiting(Context* context, std::string_view why) {
  const std::shared_ptr<Context> self = context->shared_from_this();
  NoteCrash(*context, why);
  Unlink(*context);
  if (auto device = core_->devices.Find(context->device()); device.ok()) {
    (*device)->exiting.push_back(self);
  }
}

void ContextTable::Remove(Context* context, bool crashed, std::string_view why) {
  const std::shared_ptr<Context> self = context->shared_from_this();
  if (crashed) NoteCrash(*context, why);
  Unlink(*context);
  ForgetDomainIfOver(context->domain().name);
}

void ContextTable::ForgetDomainIfOver(const std::string& domain) {
  if (core_->options.domain_policy == DomainPolicy::kSession &&
      !core_->sessions.HasDomain(domain)) {
    ForgetDomain(domain);
  }
}

void ContextTable::ForgetDomain(const std::string& domain) {
  for (DeviceRecord* device : core_->devices.All()) {
    if (!device->contexts.contains(domain)) device->history.erase(domain);
  }
}

uint64_t ContextTable::LeasesOf(const std::string& domain) {
  uint64_t leases = 0;
  for (DeviceRecord* device : core_->devices.All()) {
    auto found = device->contexts.find(domain);
    if (found != device->contexts.end()) leases += found->second->leases();
  }
  return leases;
}

int ContextTable::ClearHolds(DeviceRecord* device) {
  int cleared = 0;
  for (auto& [domain, history] : device->history) {
    cleared += history.on_hold ? 1 : 0;
    history.on_hold = false;
    history.crashes.clear();
  }
  return cleared;
}

}  // namespace kcache::core
