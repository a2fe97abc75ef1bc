#include "daemon/workers/host_launcher.h"

#include <unistd.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/history.h"
#include "daemon/workers/channel.h"
#include "daemon/workers/driver_cache.h"
#include "daemon/workers/execution_socket.h"
#include "daemon/workers/private_directory.h"

namespace kcache::workers {
namespace {

constexpr int kControlFd = 3;
constexpr int kExecutionFd = 4;
constexpr int kHistoryFd = 5;

}  // namespace

void BackendHostLauncher::Start(
    core::HostSpec spec, core::HostObserver* observer,
    core::Function<void(absl::StatusOr<std::unique_ptr<core::DeviceHost>>)> done) {
  const BackendProgram* program = parts_.programs->Find(spec.family);
  absl::Status refused;
  if (program == nullptr) {
    refused = MakeError(v1::BACKEND_UNAVAILABLE,
                        absl::StrCat("there is no backend program for ", spec.family));
  } else if (spec.device.is_cpu() && spec.uid != geteuid() &&
             !parts_.isolation->may_change_user()) {
    refused = MakeError(v1::PERMISSION_DENIED,
                        absl::StrCat("kernels on a CPU device are native code, and this kcached "
                                     "cannot run a host as uid ",
                                     spec.uid, ": it runs as uid ", geteuid(),
                                     " without CAP_SETUID"));
  }
  if (!refused.ok()) {
    parts_.host.executor->Post(
        [done = std::move(done), refused]() mutable { done(refused); });
    return;
  }
  auto started = [this, observer, done = std::move(done)](
                     absl::StatusOr<std::unique_ptr<core::DeviceHost>> host) mutable {
    starting_.erase(observer);
    done(std::move(host));
  };
  auto host = std::make_shared<HostProcess>(&parts_.host, spec, observer, std::move(started));
  starting_[observer] = host;
  parts_.host.supervisor->RunDetached(
      [this, host, spec = std::move(spec), program = *program] { Launch(host, spec, program); });
}

void BackendHostLauncher::Abandon(core::HostObserver* observer) {
  auto found = starting_.find(observer);
  if (found == starting_.end()) return;
  if (auto host = found->second.lock(); host != nullptr) host->Abandon();
}

std::optional<std::string> BackendHostLauncher::DriverCacheOf(const core::HostSpec& spec) const {
  if (!WantsDriverCache(
          {spec.device.host_environment().begin(), spec.device.host_environment().end()})) {
    return std::nullopt;
  }
  const std::optional<LaunchUser> user = parts_.isolation->host_user(spec.uid, spec.gid);
  auto path = PrepareDriverCache(parts_.host.config->state_dir,
                                 {.family = spec.device.device().framework(),
                                  .driver_version = spec.device.driver_version(),
                                  .domain = spec.domain,
                                  .uid = user ? user->uid : geteuid()},
                                 user);
  if (path.ok()) return *path;
  // The host starts without: its loads take longer.
  parts_.host.executor->Post([events = parts_.events, why = path.status().ToString()] {
    events->Emit("driver-cache-failed", why, {});
  });
  return std::nullopt;
}

// On the spawner's thread: what it touches of the host, it touches through the executor.
void BackendHostLauncher::Launch(const std::shared_ptr<HostProcess>& host,
                                 const core::HostSpec& spec, const BackendProgram& program) {
  const auto fail = [&](const absl::Status& why) {
    parts_.host.executor->Run([host, why] { host->OnStarted(why, ops::UniqueFd()); });
  };
  auto control = MakeControlSocket();
  if (!control.ok()) return fail(control.status());
  auto directory = MakePrivateDirectory(parts_.work_directory, "host-" + program.name,
                                        parts_.isolation->host_user(spec.uid, spec.gid));
  if (!directory.ok()) return fail(directory.status());
  auto execution = MakeExecutionSocket(parts_.execution_directory);
  if (!execution.ok()) {
    RemoveTree(*directory);
    return fail(execution.status());
  }

  LaunchSpec launch;
  launch.label = absl::StrCat("device host of ", spec.domain, " on ",
                              spec.device.device().framework(), ":",
                              spec.device.device().index());
  launch.arguments = {"--role=device", absl::StrCat("--control-fd=", kControlFd),
                      absl::StrCat("--execution-fd=", kExecutionFd)};
  launch.descriptors.emplace_back(kControlFd, std::move(control->theirs));
  launch.descriptors.emplace_back(kExecutionFd, std::move(execution->listening));
  if (!parts_.history_directory.empty()) {
    // Opened here: the host's file system does not show it.
    auto history = History::OpenFile(absl::StrCat(parts_.history_directory, "/host-", getpid(), "-",
                                                  ++histories_, ".history"));
    if (history.ok()) {
      launch.descriptors.emplace_back(kHistoryFd, ops::UniqueFd(*history));
      launch.arguments.push_back(absl::StrCat("--history-fd=", kHistoryFd));
    }
  }
  parts_.isolation->ForHost(program, *directory,
                            {.uid = spec.uid, .gid = spec.gid, .own_groups = true}, spec.device,
                            DriverCacheOf(spec), &launch);
  auto ours = std::make_shared<ops::UniqueFd>(std::move(control->ours));
  parts_.host.supervisor->Start(
      std::move(launch),
      [host, ours, directory = *directory, path = execution->path](
          absl::StatusOr<ChildPtr> child) {
        host->set_paths(directory, path);
        host->OnStarted(std::move(child), std::move(*ours));
      },
      [host](const ExitStatus& status) { host->OnExited(status); });
}

}  // namespace kcache::workers
