// The small public values: devices, operation ids, events.

#include <string>

#include "client/src/convert.h"
#include "contract/operation_scope.h"
#include "contract/strings.h"
#include "kcache/device.h"
#include "kcache/kernel.h"
#include "kcache/listener.h"

namespace kcache {

std::string DeviceId::ToString() const { return framework + ":" + std::to_string(index); }

std::ostream& operator<<(std::ostream& out, const DeviceId& device) {
  return out << device.ToString();
}

std::string_view DeviceStateName(DeviceState state) {
  switch (state) {
    case DeviceState::kUp:
      return "up";
    case DeviceState::kDraining:
      return "draining";
    case DeviceState::kDown:
      return "down";
    case DeviceState::kUnavailable:
      return "unavailable";
    case DeviceState::kUnknown:
      break;
  }
  return "unknown";
}

std::string_view OriginName(Origin origin) {
  switch (origin) {
    case Origin::kWarm:
      return "warm";
    case Origin::kLoaded:
      return "loaded";
    case Origin::kCompiled:
      return "compiled";
    case Origin::kJoined:
      return "joined";
    case Origin::kUnknown:
      break;
  }
  return "unknown";
}

OperationId OperationId::New() { return internal::OperationIdFrom(OperationScope::New().id()); }

std::string OperationId::ToString() const { return ToHex(internal::BytesOf(*this)); }

bool DeviceEvent::Concerns(const DeviceId& device) const {
  return internal::ToName(device).InScope(family, index);
}

bool ClearEvent::Concerns(const DeviceId& device) const {
  return internal::ToName(device).InScope(family, index);
}

}  // namespace kcache
