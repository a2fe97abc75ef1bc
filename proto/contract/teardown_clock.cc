#include "contract/teardown_clock.h"

namespace kcache {

void TeardownClock::NoteDestroy(std::string_view family, uint32_t index) {
  destroyed_[Scope{std::string(family), index}] = ++now_;
}

void TeardownClock::NoteClear(std::string_view family, std::optional<uint32_t> index) {
  cleared_[Scope{std::string(family), index}] = ++now_;
}

bool TeardownClock::DestroyedSince(const DeviceName& device, Moment moment) const {
  const auto last = destroyed_.find(Scope{std::string(device.family()), device.index});
  return last != destroyed_.end() && last->second > moment;
}

bool TeardownClock::ClearedSince(const std::optional<DeviceName>& device, Moment moment) const {
  // There are as many scopes as somebody has cleared: everything, families, devices. Few.
  for (const auto& [scope, last] : cleared_) {
    if (last <= moment) continue;
    const bool everything = scope.family.empty() && !scope.index.has_value();
    if (everything || (device.has_value() && device->InScope(scope.family, scope.index))) {
      return true;
    }
  }
  return false;
}

}  // namespace kcache
