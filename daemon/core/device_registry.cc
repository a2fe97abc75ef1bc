#include "daemon/core/device_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "contract/error_reason.h"
#include "contract/strings.h"
#include "daemon/core/errors.h"

namespace kcache::core {
namespace {

// What artifacts and contexts of a device depend on.
bool SameIdentity(const v1::DeviceInfo& a, const v1::DeviceInfo& b) {
  return a.uuid() == b.uuid() && a.name() == b.name() && a.architecture() == b.architecture() &&
         a.driver_version() == b.driver_version() &&
         a.compiler_fingerprint() == b.compiler_fingerprint();
}

}  // namespace

std::string DeviceRecord::physical() const {
  if (!info.pci_address().empty()) return absl::StrCat("pci:", info.pci_address());
  if (!info.uuid().empty()) return absl::StrCat("uuid:", info.uuid());
  return "";
}

void DeviceRecord::MoveTo(v1::DeviceState next, std::string why) {
  state = next;
  reason = std::move(why);
  info.set_state(next);
  if (next != v1::DEVICE_UP || !reason.empty()) info.set_reason(reason);
}

std::vector<DeviceRecord*> DeviceRegistry::Apply(const std::vector<v1::ProbeReport>& reports,
                                                 const std::map<std::string, std::string>& down) {
  std::vector<DeviceRecord*> changed;
  std::set<DeviceName> seen;
  for (const v1::ProbeReport& report : reports) {
    v1::ProbeReport kept = report;
    kept.clear_devices();
    reports_[report.family()] = std::move(kept);
    if (report.available()) {
      unavailable_.erase(report.family());
    } else {
      unavailable_[report.family()] = report.reason();
    }
    for (const v1::DeviceInfo& info : report.devices()) {
      auto name = DeviceName::FromProto(info.device());
      if (!name.ok() || name->family() != report.family()) continue;
      seen.insert(*name);
      auto& slot = devices_[*name];
      if (slot == nullptr) {
        slot = std::make_unique<DeviceRecord>();
        slot->name = *name;
        slot->info = info;
        slot->info.set_global_id(++next_id_);
        auto kept_down = down.find(name->ToString());
        if (kept_down == down.end()) {
          slot->MoveTo(v1::DEVICE_UP, info.reason());
        } else {
          slot->MoveTo(v1::DEVICE_DOWN_STATE, kept_down->second);
        }
        continue;
      }
      if (!SameIdentity(slot->info, info)) changed.push_back(slot.get());
      slot->away.clear();
      const uint64_t id = slot->info.global_id();
      const v1::DeviceState state = slot->state;
      const std::string reason = slot->reason;
      slot->info = info;
      slot->info.set_global_id(id);
      slot->MoveTo(state, reason);
      if (state == v1::DEVICE_UNAVAILABLE) slot->MoveTo(v1::DEVICE_UP, info.reason());
    }
    for (auto& [name, device] : devices_) {
      if (name.family() != report.family() || seen.contains(name)) continue;
      device->away = report.available() ? "the driver does not list it any more" : report.reason();
      if (device->state == v1::DEVICE_UNAVAILABLE || device->state == v1::DEVICE_DOWN_STATE) continue;
      changed.push_back(device.get());
      if (device->state == v1::DEVICE_UP) device->MoveTo(v1::DEVICE_UNAVAILABLE, device->away);
    }
  }
  return changed;
}

std::string DeviceRegistry::Existing() const {
  std::vector<std::string> names;
  for (const auto& [name, device] : devices_) names.push_back(name.ToString());
  return names.empty() ? "there are none" : absl::StrCat("there are ", absl::StrJoin(names, ", "));
}

absl::StatusOr<DeviceRecord*> DeviceRegistry::Find(const DeviceName& name) {
  const DeviceName own{std::string(name.family()), name.index};
  auto found = devices_.find(own);
  if (found == devices_.end()) {
    auto away = unavailable_.find(own.framework);
    if (away != unavailable_.end()) {
      return MakeError(v1::BACKEND_UNAVAILABLE,
                       absl::StrCat(own.framework, " is unavailable: ", away->second));
    }
    return MakeError(v1::UNKNOWN_DEVICE,
                     absl::StrCat("no device ", name.ToString(), "; ", Existing()));
  }
  if (!name.variant().empty()) {
    const auto& variants = found->second->info.variants();
    if (std::find(variants.begin(), variants.end(), name.variant()) == variants.end()) {
      return MakeError(v1::UNKNOWN_DEVICE,
                       absl::StrCat(own.ToString(), " has no variant ",
                                    AbslView(Quoted(name.variant())), "; it has ",
                                    variants.empty() ? "none" : absl::StrJoin(variants, ", ")));
    }
  }
  return found->second.get();
}

absl::StatusOr<DeviceRecord*> DeviceRegistry::FindByGlobalId(uint64_t id) {
  for (auto& [name, device] : devices_) {
    if (device->info.global_id() == id) return device.get();
  }
  if (id != 0 && id <= next_id_) {
    return MakeError(v1::ID_RETIRED,
                     absl::StrCat("device id ", id, " was retired by a reset; list devices again"));
  }
  return MakeError(v1::UNKNOWN_DEVICE, absl::StrCat("no device has the id ", id));
}

absl::StatusOr<v1::CompileCapability> DeviceRegistry::FindCompiler(
    const v1::CompileTarget& target) const {
  if (absl::Status valid = DeviceName::ValidateFramework(target.framework()); !valid.ok()) {
    return valid;
  }
  const std::string family = target.framework().substr(0, target.framework().find('/'));
  auto report = reports_.find(family);
  if (report == reports_.end()) {
    return MakeError(v1::BACKEND_UNAVAILABLE, absl::StrCat("no backend for ", family));
  }
  for (const v1::CompileCapability& compiler : report->second.compilers()) {
    if (compiler.framework() != target.framework()) continue;
    if (!compiler.unavailable().empty()) {
      return MakeError(v1::BACKEND_UNAVAILABLE,
                       absl::StrCat(target.framework(), " cannot compile: ", compiler.unavailable()));
    }
    const auto& known = compiler.architectures();
    if (!known.empty() &&
        std::find(known.begin(), known.end(), target.architecture()) == known.end()) {
      return MakeError(v1::UNSUPPORTED_ARCHITECTURE,
                       absl::StrCat(target.framework(), " does not know the architecture ",
                                    AbslView(Quoted(target.architecture())), "; it knows ",
                                    absl::StrJoin(known, ", ")));
    }
    return compiler;
  }
  return MakeError(v1::BACKEND_UNAVAILABLE,
                   absl::StrCat(target.framework(), " has no compiler",
                                report->second.reason().empty()
                                    ? ""
                                    : absl::StrCat(": ", report->second.reason())));
}

std::vector<DeviceRecord*> DeviceRegistry::Physical(const DeviceRecord& device) {
  std::vector<DeviceRecord*> same;
  // One API may tell the PCI address, another the uuid only.
  auto equal = [](const std::string& a, const std::string& b) { return !a.empty() && a == b; };
  for (auto& [name, other] : devices_) {
    if (other.get() == &device || equal(other->info.pci_address(), device.info.pci_address()) ||
        equal(other->info.uuid(), device.info.uuid())) {
      same.push_back(other.get());
    }
  }
  return same;
}

std::vector<DeviceRecord*> DeviceRegistry::InScope(std::string_view family,
                                                   std::optional<uint32_t> index) {
  std::vector<DeviceRecord*> scope;
  for (auto& [name, device] : devices_) {
    if (name.InScope(family, index)) scope.push_back(device.get());
  }
  return scope;
}

std::vector<DeviceRecord*> DeviceRegistry::All() { return InScope("", std::nullopt); }

void DeviceRegistry::RetireIds() {
  for (auto& [name, device] : devices_) device->info.set_global_id(++next_id_);
}

absl::Status DeviceRegistry::CheckUsable(const DeviceRecord& device) {
  const std::string name = device.name.ToString();
  switch (device.state) {
    case v1::DEVICE_UP:
      return absl::OkStatus();
    case v1::DEVICE_DRAINING_STATE:
      return MakeError(v1::DEVICE_DRAINING, absl::StrCat(name, " is being destroyed"));
    case v1::DEVICE_DOWN_STATE:
      return MakeError(v1::DEVICE_DOWN,
                       absl::StrCat(name, " is kept down: ", device.reason,
                                    ". An operator brings it back: kcachectl device-up ", name));
    default:
      return MakeError(v1::NOT_READY, absl::StrCat(name, " is unavailable: ", device.reason));
  }
}

}  // namespace kcache::core
