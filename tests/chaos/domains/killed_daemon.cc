#include "tests/chaos/domains/killed_daemon.h"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <thread>

#include "absl/strings/str_cat.h"
#include "kcache/client.h"
#include "tests/chaos/domains/hostile_programs.h"
#include "tests/chaos/domains/player.h"
#include "tests/chaos/domains/process_tree.h"
#include "tests/chaos/domains/watcher.h"

namespace kcache::domains {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int kWorkers = 2;

// Asks for a compile that does not end, until the daemon does.
class Compiling {
 public:
  Compiling(const std::string& socket, int number) {
    auto client = Client::Connect({.socket = socket,
                                   .name = "compiling",
                                   .acquire_timeout = std::chrono::seconds(60)});
    if (!client.ok()) return;
    client_ = *client;
    thread_ = std::thread([this, number] {
      const HostileProgram endless = EndlessProgram({"OpenCL", ""}, std::to_string(number));
      auto program = Program::FromSource(endless.language, endless.source);
      if (program.ok()) {
        client_->AcquireArtifact(*program, DeviceId{"OpenCL", 0}).status().IgnoreError();
      }
    });
  }
  ~Compiling() {
    if (client_ != nullptr) client_->Close();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::shared_ptr<Client> client_;
  std::thread thread_;
};

int Executing(const v1::AdminDeviceList& devices) {
  int hosts = 0;
  for (const v1::AdminDevice& device : devices.devices()) {
    for (const v1::ContextSummary& context : device.contexts()) hosts += context.launches() > 0;
  }
  return hosts;
}

// Until the condition holds: asks again and again, for the daemon has no event for it.
template <class Condition>
absl::Status AwaitThat(const char* what, const Condition& condition) {
  const auto deadline = std::chrono::steady_clock::now() + Player::kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    if (condition()) return absl::OkStatus();
  }
  return absl::DeadlineExceededError(what);
}

// Waits until none of them runs, or until the time is over. When the last one went.
int64_t AwaitEnd(const std::vector<ProcessEntry>& processes, int64_t until) {
  int64_t last = MonotonicNow();
  for (const ProcessEntry& process : processes) {
    const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0));
    if (pidfd < 0) continue;
    if (Runs(process)) {
      pollfd event{pidfd, POLLIN, 0};
      const int64_t left = std::max<int64_t>(0, (until - MonotonicNow()) / 1'000'000);
      poll(&event, 1, static_cast<int>(left));
      last = MonotonicNow();
    }
    close(pidfd);
  }
  return last;
}

}  // namespace

absl::StatusOr<KilledDaemonReport> KillDaemon(const Cast& cast) {
  auto started = testing::PrivateDaemon::Start(
      DaemonFor(cast, {"--compile.workers=2", "--hosts.heartbeat=50ms"}));
  if (!started.ok()) return started.status();
  testing::PrivateDaemon& daemon = **started;
  KilledDaemonReport report;
  {
    std::vector<std::unique_ptr<Player>> busy;
    for (const auto& user : {cast.first, cast.second}) {
      for (const char* device : {"OpenCL:0", "OpenCL:1"}) {
        auto player = Player::Start(user, {"busy", daemon.socket(), device});
        if (!player.ok()) return player.status();
        busy.push_back(*std::move(player));
      }
    }
    std::vector<std::unique_ptr<Compiling>> compiling;
    for (int i = 0; i < kWorkers; ++i) {
      compiling.push_back(std::make_unique<Compiling>(daemon.socket(), i));
    }
    {
      Watcher watcher(daemon.admin_socket());
      absl::Status all_busy = AwaitThat("two compiles do not start", [&] {
        const auto status = watcher.Status();
        return status.ok() && status->compiles_running() == kWorkers;
      });
      if (!all_busy.ok()) return all_busy;
      all_busy = AwaitThat("four hosts do not run a kernel", [&] {
        const auto devices = watcher.Devices();
        report.hosts = devices.ok() ? Executing(*devices) : 0;
        return report.hosts == 4;
      });
      if (!all_busy.ok()) return all_busy;
      report.workers = kWorkers;
    }
    std::vector<ProcessEntry> processes = Tree(daemon.pid());
    std::erase_if(processes, [&](const ProcessEntry& one) { return one.pid == daemon.pid(); });
    report.processes = static_cast<int>(processes.size());

    const int64_t killed = MonotonicNow();
    kill(daemon.pid(), SIGKILL);
    const int64_t last = AwaitEnd(processes, killed + kSecond);
    for (const ProcessEntry& process : processes) {
      if (Runs(process)) report.left.push_back(absl::StrCat(process.pid, " ", process.name));
    }
    report.gone_ms = static_cast<double>(last - killed) / 1e6;
  }
  if (absl::Status gone = daemon.Kill(); !gone.ok() && report.left.empty()) return gone;

  const int64_t again = MonotonicNow();
  if (absl::Status up = daemon.Restart(); !up.ok()) return up;
  auto player = Player::Start(cast.first, {"launch", daemon.socket(), "OpenCL:0", "after", "0"});
  if (!player.ok()) return player.status();  // ready is said after the first good launch
  report.serving_ms = static_cast<double>(MonotonicNow() - again) / 1e6;
  if (absl::Status ended = (*player)->Finish(); !ended.ok()) return ended;
  if (absl::Status stopped = daemon.Stop(); !stopped.ok()) return stopped;
  return report;
}

}  // namespace kcache::domains
