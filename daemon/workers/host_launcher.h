// Starts device hosts: the process as the user that it serves, its sockets, its context.
//
// Threads: on the executor. Ownership: the hosts' processes own themselves (device_host.h).

#ifndef KCACHE_DAEMON_WORKERS_HOST_LAUNCHER_H_
#define KCACHE_DAEMON_WORKERS_HOST_LAUNCHER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "daemon/core/dependencies.h"
#include "daemon/ops/event_log.h"
#include "daemon/workers/backend_programs.h"
#include "daemon/workers/device_host.h"
#include "daemon/workers/isolation.h"

namespace kcache::workers {

class BackendHostLauncher : public core::HostLauncher {
 public:
  struct Parts {
    HostParts host;
    ops::EventLog* events = nullptr;
    BackendPrograms* programs = nullptr;
    const Isolation* isolation = nullptr;
    std::string work_directory;       // private directories
    std::string execution_directory;  // execution sockets
    std::string history_directory;    // where hosts record what they do; empty: they do not
  };
  explicit BackendHostLauncher(Parts parts) : parts_(std::move(parts)) {}

  void Start(core::HostSpec spec, core::HostObserver* observer,
             core::Function<void(absl::StatusOr<std::unique_ptr<core::DeviceHost>>)> done)
      override;
  void Abandon(core::HostObserver* observer) override;

 private:
  void Launch(const std::shared_ptr<HostProcess>& host, const core::HostSpec& spec,
              const BackendProgram& program);
  // The directory that the device's driver keeps compiled code in; none where it asks for none, or
  // where there cannot be one, which is logged.
  std::optional<std::string> DriverCacheOf(const core::HostSpec& spec) const;

  const Parts parts_;
  std::map<core::HostObserver*, std::weak_ptr<HostProcess>> starting_;
  std::atomic<uint64_t> histories_{0};
};

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_HOST_LAUNCHER_H_
