#include "daemon/ops/boot_clock.h"

#include <ctime>

namespace kcache::ops {

absl::Duration BootClock::Now() const {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return absl::DurationFromTimespec(now);
}

}  // namespace kcache::ops
