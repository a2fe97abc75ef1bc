// What systemd is told (sd_notify). Does nothing when nobody asked for it.
//
// Threads: any.

#ifndef KCACHE_DAEMON_OPS_SERVICE_MANAGER_H_
#define KCACHE_DAEMON_OPS_SERVICE_MANAGER_H_

#include <string>

#include "absl/time/time.h"

namespace kcache::ops {

class ServiceManager {
 public:
  void Ready(const std::string& status) const;
  void Status(const std::string& status) const;
  void Reloading() const;
  // `bound`: stopping takes at most this long.
  void Stopping(absl::Duration bound) const;
  void Alive() const;

  // How often Alive must be called; zero: there is no watchdog.
  absl::Duration watchdog_interval() const;
};

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_SERVICE_MANAGER_H_
