// Orders builds, clears and destroys: "has this device been destroyed, or cleared, since then?".
//
// One counter serves all devices and scopes. It only grows, so no epoch or generation ever goes
// back or is used twice, also for devices that have no entries yet.
//
// Threads: none of its own; the owner's lock guards it.

#ifndef KCACHE_CONTRACT_TEARDOWN_CLOCK_H_
#define KCACHE_CONTRACT_TEARDOWN_CLOCK_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#include "contract/device_name.h"

namespace kcache {

class TeardownClock {
 public:
  using Moment = uint64_t;

  Moment Now() const { return now_; }

  void NoteDestroy(std::string_view family, uint32_t index);
  // An empty family is all of them, no index is every device of the family.
  void NoteClear(std::string_view family, std::optional<uint32_t> index);

  bool DestroyedSince(const DeviceName& device, Moment moment) const;
  // Without a device, only a clear of everything counts.
  bool ClearedSince(const std::optional<DeviceName>& device, Moment moment) const;

 private:
  struct Scope {
    std::string family;
    std::optional<uint32_t> index;
    friend auto operator<=>(const Scope&, const Scope&) = default;
  };

  Moment now_ = 1;
  std::map<Scope, Moment> destroyed_;
  std::map<Scope, Moment> cleared_;
};

}  // namespace kcache

#endif  // KCACHE_CONTRACT_TEARDOWN_CLOCK_H_
