// CLOCK_BOOTTIME: time since boot, suspend included.
//
// Threads: any.

#ifndef KCACHE_DAEMON_OPS_BOOT_CLOCK_H_
#define KCACHE_DAEMON_OPS_BOOT_CLOCK_H_

#include "daemon/core/dependencies.h"

namespace kcache::ops {

class BootClock : public core::Clock {
 public:
  absl::Duration Now() const override;
};

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_BOOT_CLOCK_H_
