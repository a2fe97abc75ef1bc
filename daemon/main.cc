// kcached: flags and wiring.

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "contract/history.h"
#include "contract/strings.h"
#include "daemon/arguments.h"
#include "daemon/core/service.h"
#include "daemon/ops/boot_clock.h"
#include "daemon/ops/config_options.h"
#include "daemon/ops/device_census.h"
#include "daemon/ops/epoll_loop.h"
#include "daemon/ops/event_log.h"
#include "daemon/ops/file_watch.h"
#include "daemon/ops/metrics.h"
#include "daemon/ops/runtime_directory.h"
#include "daemon/ops/secure_random.h"
#include "daemon/ops/service_manager.h"
#include "daemon/ops/state_file.h"
#include "daemon/ops/strand_executor.h"
#include "daemon/rpc/rpc_server.h"
#include "daemon/store/memory_store.h"
#include "daemon/workers/backend_programs.h"
#include "daemon/workers/control_groups.h"
#include "daemon/workers/host_launcher.h"
#include "daemon/workers/isolation.h"
#include "daemon/workers/private_directory.h"
#include "daemon/workers/prober.h"
#include "daemon/workers/supervisor.h"
#include "daemon/workers/worker_pool.h"

namespace kcache {
namespace {

// A package's files come one after the other.
constexpr absl::Duration kSettle = absl::Seconds(1);

constexpr int kExitOk = 0, kExitFailure = 1, kExitUsage = 2;

int Fail(const absl::Status& why) {
  std::fprintf(stderr, "kcached: %s\n", std::string(why.message()).c_str());
  return kExitFailure;
}

// What stopping may take: the drain's own bounds.
absl::Duration StopBound(const core::Limits& limits) {
  return limits.shutdown_grace + limits.fence_wait + limits.finish + 2 * limits.kill_verify +
         absl::Seconds(10);
}

// Who asks for what nobody else has asked for.
core::Peer OurselvesAsPeer() {
  return {.uid = geteuid(), .gid = getegid(), .pid = getpid()};
}

// Waits for a signal: SIGTERM and SIGINT stop, SIGHUP probes again.
class Signals {
 public:
  Signals() {
    sigemptyset(&set_);
    for (int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&set_, signal);
    // Before any thread is made, so that all inherit it.
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    signal(SIGPIPE, SIG_IGN);
  }
  int Wait(absl::Duration limit) const {
    const timespec timeout = absl::ToTimespec(limit);
    while (true) {
      const int caught = limit == absl::InfiniteDuration() ? sigwaitinfo(&set_, nullptr)
                                                           : sigtimedwait(&set_, nullptr, &timeout);
      if (caught > 0) return caught;
      if (errno == EAGAIN) return 0;
      if (errno != EINTR) return SIGTERM;
    }
  }

 private:
  sigset_t set_;
};

// Every connection takes descriptors; what is allowed is used.
void RaiseFileLimit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return;
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
}

// Debian's absl looks for deadlocks at every lock, gRPC's own included: several microseconds of a
// warm acquire. TSan looks for them in the tests.
void StopLockOrderChecks() { absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore); }

int Serve(const ops::Config& config, const Signals& signals) {
  StopLockOrderChecks();
  ops::StartLogging(config.log_level);
  RaiseFileLimit();
  auto directory = ops::RuntimeDirectory::Open(config);
  if (!directory.ok()) return Fail(directory.status());
  const std::string& work_directory = directory->work();

  ops::BootClock clock;
  ops::SecureRandom random;
  ops::StrandExecutor executor(&clock);
  ops::EventLog events(config.event_history);
  ops::StateFile state(config.state_dir, &events);
  ops::ProcCensus census(&executor);
  store::MemoryArtifactStore artifacts(config.store_bytes, config.store_count);
  std::unique_ptr<History> history;
  if (!config.history_directory.empty()) {
    auto opened =
        History::Open(absl::StrCat(config.history_directory, "/daemon-", getpid(), ".history"));
    if (!opened.ok()) return Fail(opened.status());
    history = *std::move(opened);
  }
  auto loop = ops::EpollLoop::Create("kcached-io");
  if (!loop.ok()) return Fail(loop.status());

  const std::unique_ptr<workers::ControlGroups> groups =
      config.sandbox == "off" ? workers::ControlGroups::None("isolation.sandbox is off")
                              : workers::ControlGroups::Open();
  workers::Isolation isolation(&config, groups.get());
  workers::BackendPrograms programs(
      workers::SearchedDirectories(config.backend_directories, workers::OwnDirectory()));
  auto launcher = workers::LocateLauncher(config.launcher, workers::OwnDirectory());
  if (!launcher.ok()) return Fail(launcher.status());
  if (absl::Status chosen = isolation.ChooseSandbox(*launcher, work_directory); !chosen.ok()) {
    return Fail(chosen);
  }
  if (!isolation.namespaces()) events.Emit("sandbox-weak", isolation.Describe(), {});
  auto supervisor = workers::Supervisor::Create(*launcher, &executor, groups.get());
  if (!supervisor.ok()) return Fail(supervisor.status());
  std::unique_ptr<core::Service> service;
  // A driver that comes, goes or changes is an event: nobody has to ask for a rescan.
  auto files = ops::FileWatch::Create(
      loop->get(), &executor, kSettle, [&service, &events](const std::string& path) {
        if (service == nullptr) return;
        events.Emit("driver-files-changed", absl::StrCat(path, " has changed; probing again"), {});
        service->StartRescan(OurselvesAsPeer(), [](const v1::OperationUpdate&) {});
      });
  if (!files.ok()) events.Emit("driver-watch-failed", files.status().ToString(), {});
  workers::BackendProber prober({.config = &config,
                                 .executor = &executor,
                                 .events = &events,
                                 .supervisor = supervisor->get(),
                                 .programs = &programs,
                                 .isolation = &isolation,
                                 .work_directory = work_directory,
                                 .files = files.ok() ? files->get() : nullptr});
  workers::WorkerPool pool({.config = &config,
                            .clock = &clock,
                            .executor = &executor,
                            .events = &events,
                            .supervisor = supervisor->get(),
                            .programs = &programs,
                            .isolation = &isolation,
                            .work_directory = work_directory});
  workers::BackendHostLauncher hosts({.host = {.config = &config,
                                               .clock = &clock,
                                               .executor = &executor,
                                               .supervisor = supervisor->get()},
                                      .events = &events,
                                      .programs = &programs,
                                      .isolation = &isolation,
                                      .work_directory = work_directory,
                                      .execution_directory = directory->execution(),
                                      .history_directory = config.history_directory});

  core::Options options = config.core;
  options.may_change_uid = isolation.may_change_user();
  options.version = KCACHED_VERSION;
  service = core::Service::Create(
      options, {.clock = &clock,
                .executor = &executor,
                .random = &random,
                .workers = &pool,
                .hosts = &hosts,
                .census = &census,
                .prober = &prober,
                .artifacts = &artifacts,
                .state = &state,
                .events = &events,
                .history = history.get()});

  rpc::RpcOptions rpc_options;
  rpc_options.client = {.path = config.socket,
                        .mode = static_cast<mode_t>(config.socket_mode),
                        .group = ""};
  rpc_options.admin = {.path = config.admin_socket,
                       .mode = static_cast<mode_t>(config.admin_socket_mode),
                       .group = geteuid() == 0 && rpc::GroupExists(config.admin_group)
                                    ? config.admin_group
                                    : ""};
  rpc_options.max_message_bytes = config.core.limits.max_message_bytes;
  rpc_options.max_source_bytes = config.core.limits.max_source_bytes;
  rpc_options.keepalive = config.keepalive;
  rpc_options.connections = {.connections = config.max_connections,
                             .connections_per_uid = config.max_connections_per_uid};
  rpc::AdminService::Hooks hooks;
  hooks.complete_status = [&config, &isolation](v1::StatusReply* status) {
    isolation.FillState(status->mutable_isolation());
    status->set_socket(config.socket);
    status->set_admin_socket(config.admin_socket);
  };
  hooks.metrics_text = [&service, &events] {
    return ops::MetricsText({.status = service->Status(),
                             .devices = service->Devices({}),
                             .events = events.counts()});
  };

  // Devices are probed first: who can connect finds them there.
  std::mutex mutex;
  std::condition_variable changed;
  bool ready = false;
  auto set_ready = [&] {
    std::lock_guard<std::mutex> lock(mutex);
    ready = true;
    changed.notify_all();
  };
  executor.Run([&] { service->Start(set_ready); });
  {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return ready; });
    ready = false;
  }
  auto server = rpc::RpcServer::Start(rpc_options, service.get(), &executor, loop->get(), &events,
                                      std::move(hooks));
  if (!server.ok()) {
    executor.Stop();
    return Fail(server.status());
  }
  events.Emit("serving", absl::StrCat("serving on ", config.socket, "; ", isolation.Describe()), {});
  const ops::ServiceManager manager;
  manager.Ready(absl::StrCat("serving on ", config.socket));

  const absl::Duration watchdog = manager.watchdog_interval();
  while (true) {
    const int signal = signals.Wait(watchdog > absl::ZeroDuration() ? watchdog / 2
                                                                    : absl::InfiniteDuration());
    if (signal == 0) {
      // Alive means that the core takes tasks, not only that this thread runs.
      executor.Post([&manager] { manager.Alive(); });
    } else if (signal == SIGHUP) {
      executor.Post([&service] {
        service->StartRescan(OurselvesAsPeer(), [](const v1::OperationUpdate&) {});
      });
    } else {
      break;
    }
  }

  const absl::Duration bound = StopBound(config.core.limits);
  manager.Stopping(bound);
  events.Emit("stopping", "draining", {});
  (*server)->StopAccepting();
  executor.Post([&] { service->Shutdown(set_ready); });
  bool drained = false;
  {
    std::unique_lock<std::mutex> lock(mutex);
    const auto due = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(bound);
    while (!ready && std::chrono::steady_clock::now() < due) {
      changed.wait_for(lock, std::chrono::milliseconds(50));
      lock.unlock();
      const bool again = signals.Wait(absl::ZeroDuration()) > 0;  // asked twice: at once
      lock.lock();
      if (again) break;
    }
    drained = ready;
  }
  (*server)->Shutdown(absl::Milliseconds(500));
  executor.Run([&pool] { pool.Stop(); });
  executor.Stop();
  ops::StopLogging();
  // What is still running is ended with its control group, else by the kernel when this process ends
  // (parent-death signals).
  groups->EndAll();
  directory->Empty();
  std::fflush(nullptr);
  _exit(drained ? kExitOk : kExitFailure);
}

}  // namespace
}  // namespace kcache

int main(int argc, char** argv) {
  using kcache::Arguments;
  const kcache::Signals signals;
  auto arguments = kcache::ParseArguments(argc, argv);
  if (!arguments.ok()) {
    std::fprintf(stderr, "kcached: %s; see kcached --help\n",
                 std::string(arguments.status().message()).c_str());
    return kcache::kExitUsage;
  }
  if (arguments->action == Arguments::Action::kHelp) {
    std::fputs(kcache::HelpText().c_str(), stdout);
    return kcache::kExitOk;
  }
  if (arguments->action == Arguments::Action::kVersion) {
    std::printf("kcached %s\n", KCACHED_VERSION);
    return kcache::kExitOk;
  }
  if (arguments->action == Arguments::Action::kPrintDefaults) {
    std::fputs(kcache::ops::PrintConfig({}, /*defaults_only=*/true).c_str(), stdout);
    return kcache::kExitOk;
  }
  auto config = kcache::ops::LoadConfig(arguments->sources);
  if (!config.ok()) {
    std::fprintf(stderr, "kcached: %s\n", std::string(config.status().message()).c_str());
    return kcache::kExitUsage;
  }
  if (arguments->action == Arguments::Action::kCheckConfig) {
    std::puts("the configuration is good");
    return kcache::kExitOk;
  }
  if (arguments->action == Arguments::Action::kPrintConfig) {
    std::fputs(kcache::ops::PrintConfig(*config, /*defaults_only=*/false).c_str(), stdout);
    return kcache::kExitOk;
  }
  return kcache::Serve(*config, signals);
}
