#include "daemon/ops/service_manager.h"

#include <systemd/sd-daemon.h>

#include <cstdint>
#include <ctime>

#include "absl/strings/str_cat.h"

namespace kcache::ops {

void ServiceManager::Ready(const std::string& status) const {
  sd_notify(0, absl::StrCat("READY=1\nSTATUS=", status).c_str());
}

void ServiceManager::Status(const std::string& status) const {
  sd_notify(0, absl::StrCat("STATUS=", status).c_str());
}

void ServiceManager::Reloading() const {
  // Type=notify-reload wants the time at which the reload began.
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  const int64_t microseconds = absl::ToInt64Microseconds(absl::DurationFromTimespec(now));
  sd_notify(0, absl::StrCat("RELOADING=1\nMONOTONIC_USEC=", microseconds).c_str());
}

void ServiceManager::Stopping(absl::Duration bound) const {
  sd_notify(0, absl::StrCat("STOPPING=1\nSTATUS=draining\nEXTEND_TIMEOUT_USEC=",
                            absl::ToInt64Microseconds(bound))
                   .c_str());
}

void ServiceManager::Alive() const { sd_notify(0, "WATCHDOG=1"); }

absl::Duration ServiceManager::watchdog_interval() const {
  uint64_t microseconds = 0;
  if (sd_watchdog_enabled(0, &microseconds) <= 0) return absl::ZeroDuration();
  return absl::Microseconds(static_cast<int64_t>(microseconds)) / 2;
}

}  // namespace kcache::ops
