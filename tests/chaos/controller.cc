#include "tests/chaos/controller.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"
#include "tests/chaos/leftovers.h"

namespace kcache::chaos {
namespace {

using std::chrono::milliseconds;

// Short, so that much happens in a run. The bound of an operation follows from them: grace, fence and
// finish with the daemon's margins, two verified kills, twice where a destroy waits for another one; and
// what a small, loaded machine takes.
constexpr int kGraceMs = 400, kFenceMs = 500, kFinishMs = 2000, kKillMs = 3000, kMarginMs = 3000;
constexpr int kLoadedMs = 10000;
constexpr int kOperationBoundMs =
    2 * (kGraceMs + kFenceMs + kMarginMs + kFinishMs + kMarginMs + 2 * kKillMs) + kLoadedMs;

constexpr milliseconds kClientEnd{120000};  // what it is doing may take that long
// Every third client is another user's; every sixth is slow to acknowledge.
constexpr char kOtherUid[] = "12001";

std::string Built(const std::string& relative) {
  const char* directory = std::getenv("KCACHE_BINARY_DIR");
  return std::string(directory == nullptr ? "." : directory) + "/" + relative;
}

std::string Join(const std::vector<DeviceId>& devices) {
  std::string text;
  for (const DeviceId& device : devices) absl::StrAppend(&text, text.empty() ? "" : ",", device.ToString());
  return text;
}

std::string CommandLine(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/cmdline"));
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

}  // namespace

Controller::Controller(ControllerOptions options) : options_(std::move(options)) {}

absl::Status Controller::Run() {
  auto history = History::Open(options_.histories + "/controller.history");
  if (!history.ok()) return history.status();
  history_ = *std::move(history);
  history_->Record("config", {{"seed", options_.plan.seed},
                              {"operation_bound_ms", static_cast<uint64_t>(kOperationBoundMs)}});
  const Leftovers leftovers;
  if (absl::Status up = StartDaemon(); !up.ok()) return up;
  operator_ = std::make_unique<Operator>(daemon_->admin_socket(), options_.devices, history_.get());
  clients_.resize(options_.plan.clients);
  for (uint32_t i = 0; i < options_.plan.clients; ++i) {
    if (absl::Status started = StartClient(i); !started.ok()) return started;
  }
  const uint64_t start = History::Now();
  for (const Step& step : MakePlan(options_.plan)) {
    const uint64_t due = start + step.at_ms * 1'000'000;
    while (History::Now() < due) {
      poll(nullptr, 0, static_cast<int>(std::min<uint64_t>(50, (due - History::Now()) / 1'000'000 + 1)));
      if (absl::Status reaped = ReapClients(); !reaped.ok()) return reaped;
    }
    if (absl::Status alive = CheckDaemon(); !alive.ok()) return alive;
    if (absl::Status taken = Take(step); !taken.ok()) return taken;
  }
  ContinueAll();
  operator_->Finish();
  rude_.clear();
  if (absl::Status alive = CheckDaemon(); !alive.ok()) return alive;
  EndClients();
  operator_->NoteStatus();
  const std::string runtime = daemon_->directory() + "/run";
  EndDaemon();
  leftovers.Record(runtime, history_.get());
  return absl::OkStatus();
}

// ---- the daemon ---------------------------------------------------------------------------------

absl::Status Controller::StartDaemon() {
  testing::PrivateDaemonOptions options;
  options.program = options_.daemon;
  options.backend_directories = options_.backend_directories;
  options.flags = {"--log.history-dir=" + options_.histories,
                   "--backends.launcher=" + Built("daemon/kcache-launch"),
                   "--log.level=warning",
                   absl::StrCat("--limits.grace=", kGraceMs, "ms"),
                   absl::StrCat("--limits.shutdown-grace=", kGraceMs, "ms"),
                   absl::StrCat("--limits.fence-wait=", kFenceMs, "ms"),
                   absl::StrCat("--limits.finish=", kFinishMs, "ms"),
                   absl::StrCat("--limits.kill-verify=", kKillMs, "ms"),
                   "--limits.session-ttl=4s",
                   "--hosts.crashes-to-hold=1000",
                   "--hosts.backoff=10ms",
                   "--hosts.heartbeat=200ms",
                   "--hosts.unresponsive=3s",
                   "--hosts.idle=2s",
                   "--hosts.crash-window=1s",
                   "--compile.nice=0",
                   "--compile.refusal=1h"};
  auto daemon = testing::PrivateDaemon::Start(std::move(options));
  if (!daemon.ok()) return daemon.status();
  daemon_ = *std::move(daemon);
  history_->Record("daemon-started", {{"pid", static_cast<uint64_t>(daemon_->pid())}});
  return absl::OkStatus();
}

absl::Status Controller::RestartDaemon() {
  absl::Status up = daemon_->Restart();
  if (up.ok()) history_->Record("daemon-started", {{"pid", static_cast<uint64_t>(daemon_->pid())}});
  return up;
}

// One that died by itself is a finding, and the run goes on.
absl::Status Controller::CheckDaemon() {
  if (kill(daemon_->pid(), 0) == 0) return absl::OkStatus();
  const std::string log = daemon_->Log();
  std::ofstream(options_.histories + "/daemon-crash.log", std::ios::app) << log;
  history_->Record("daemon-ended",
                   {{"pid", static_cast<uint64_t>(daemon_->pid())},
                    {"unexpected", absl::StrCat("died by itself; the end of its log: ",
                                                log.substr(log.size() - std::min<size_t>(log.size(), 600)))}});
  if (absl::Status gone = daemon_->Kill(); !gone.ok()) {
    history_->Record("left", {{"what", "process"}, {"name", StdView(gone.message())}});
  }
  daemon_stopped_ = false;
  return RestartDaemon();
}

void Controller::EndDaemon() {
  const auto pid = static_cast<uint64_t>(daemon_->pid());
  const absl::Status stopped = daemon_->Stop();
  history_->Record("looked-for", {{"what", "processes"}});
  history_->Record("daemon-ended",
                   {{"pid", pid}, {"unexpected", StdView(stopped.message())}});
}

// ---- clients ------------------------------------------------------------------------------------

absl::Status Controller::StartClient(uint32_t index) {
  Slot& slot = clients_[index];
  const std::string name = absl::StrCat("client-", index, "-", ++slot.life);
  std::vector<std::string> command = {
      Built("tests/chaos/kcache-chaos-worker"),
      "--socket=" + daemon_->socket(),
      absl::StrCat("--history=", options_.histories, "/", name, ".history"),
      absl::StrCat("--seed=", options_.plan.seed * 1'000'003 + index * 1009 + slot.life),
      "--devices=" + Join(options_.devices)};
  if (index % 3 == 1 && geteuid() == 0) command.push_back(absl::StrCat("--uid=", kOtherUid));
  if (index % 6 == 2 || index % 6 == 4) command.emplace_back("--profile=stubborn");
  auto child = Child::Start(std::move(command), options_.histories + "/" + name + ".log");
  if (!child.ok()) return child.status();
  slot.child = *std::move(child);
  slot.stopped = false;
  return absl::OkStatus();
}

// A client that ended by itself is a finding; another one takes its place.
absl::Status Controller::ReapClients() {
  for (uint32_t i = 0; i < clients_.size(); ++i) {
    auto ended = clients_[i].child->Ended();
    if (!ended.has_value()) continue;
    history_->Record("client-ended", {{"pid", static_cast<uint64_t>(clients_[i].child->pid())},
                                      {"unexpected", absl::StrCat("client-", i, "-", clients_[i].life,
                                                                  " ended by itself: ", *ended)}});
    if (absl::Status started = StartClient(i); !started.ok()) return started;
  }
  return absl::OkStatus();
}

void Controller::EndClients() {
  for (Slot& slot : clients_) slot.child->Say('f');
  const auto due = std::chrono::steady_clock::now() + kClientEnd;
  for (uint32_t i = 0; i < clients_.size(); ++i) {
    Child& child = *clients_[i].child;
    auto ended = child.AwaitEnd(std::max(
        milliseconds(0), std::chrono::duration_cast<milliseconds>(due - std::chrono::steady_clock::now())));
    const auto pid = static_cast<uint64_t>(child.pid());
    if (!ended.has_value()) {
      history_->Record("client-hung", {{"pid", pid}, {"name", absl::StrCat("client-", i, "-", clients_[i].life)}});
      clients_[i].child = nullptr;  // kills
    } else {
      history_->Record("client-ended",
                       {{"pid", pid},
                        {"unexpected", *ended == "exit 0" ? "" : absl::StrCat("client-", i, " ended with ", *ended)}});
    }
  }
}

// ---- hosts --------------------------------------------------------------------------------------

std::vector<pid_t> Controller::Hosts() const {
  std::vector<pid_t> hosts;
  for (const std::string& process : daemon_->Processes()) {
    if (process.find(" kcache-backend-") == std::string::npos) continue;
    const pid_t pid = std::atoi(process.c_str());
    if (CommandLine(pid).find("--role=device") != std::string::npos) hosts.push_back(pid);
  }
  return hosts;
}

void Controller::SignalHost(uint32_t target, int number) {
  const std::vector<pid_t> hosts = Hosts();
  if (hosts.empty()) return;
  const pid_t pid = hosts[target % hosts.size()];
  if (number == SIGSTOP) stopped_hosts_[target] = pid;
  history_->Record("host-signal", {{"pid", static_cast<uint64_t>(pid)},
                                   {"signal", static_cast<uint64_t>(number)}});
  kill(pid, number);
}

// ---- rude clients -------------------------------------------------------------------------------

void Controller::StartRude(const Step& step) {
  const std::string name = absl::StrCat("client-rude-", ++rude_lives_);
  auto child = Child::Start(
      {Built("tests/chaos/kcache-chaos-rude"), "--socket=" + daemon_->socket(),
       absl::StrCat("--history=", options_.histories, "/", name, ".history"),
       step.kind == StepKind::kStartMute ? "--mode=mute" : "--mode=deaf",
       "--device=" + options_.devices[step.target % options_.devices.size()].ToString()},
      options_.histories + "/" + name + ".log");
  if (child.ok()) rude_[step.target] = *std::move(child);
}

void Controller::EndRude(uint32_t target) {
  auto found = rude_.find(target);
  if (found == rude_.end()) return;
  history_->Record("client-killed", {{"pid", static_cast<uint64_t>(found->second->pid())}});
  rude_.erase(found);
}

// ---- steps --------------------------------------------------------------------------------------

absl::Status Controller::Take(const Step& step) {
  Slot& slot = clients_[step.target % clients_.size()];
  const auto client = static_cast<uint64_t>(slot.child->pid());
  if (IsFault(step.kind)) history_->Record("fault", {{"kind", Name(step.kind)}});
  switch (step.kind) {
    case StepKind::kClear:
    case StepKind::kClearArtifacts:
    case StepKind::kDestroy:
    case StepKind::kDestroyPhysical:
    case StepKind::kDestroyStayDown:
    case StepKind::kDeviceUp:
    case StepKind::kReset:
    case StepKind::kRescan:
      operator_->Start(step);
      break;
    case StepKind::kKillClient:
      history_->Record("client-killed", {{"pid", client}});
      slot.child = nullptr;
      return StartClient(step.target % static_cast<uint32_t>(clients_.size()));
    case StepKind::kStopClient:
      history_->Record("client-stopped", {{"pid", client}});
      slot.child->Signal(SIGSTOP);
      slot.stopped = true;
      break;
    case StepKind::kContinueClient:
      slot.child->Signal(SIGCONT);
      slot.stopped = false;
      break;
    case StepKind::kCutClient:
      slot.child->Say('c');
      break;
    case StepKind::kKillHost:
      SignalHost(step.target, SIGKILL);
      break;
    case StepKind::kSegvHost:
      SignalHost(step.target, SIGSEGV);
      break;
    case StepKind::kStopHost:
      SignalHost(step.target, SIGSTOP);
      break;
    case StepKind::kContinueHost:
      if (auto stopped = stopped_hosts_.find(step.target); stopped != stopped_hosts_.end()) {
        kill(stopped->second, SIGCONT);
        stopped_hosts_.erase(stopped);
      }
      break;
    case StepKind::kKillDaemon: {
      history_->Record("daemon-killed", {{"pid", static_cast<uint64_t>(daemon_->pid())}});
      daemon_stopped_ = false;
      if (absl::Status gone = daemon_->Kill(); !gone.ok()) {
        history_->Record("left", {{"what", "process"}, {"name", StdView(gone.message())}});
      }
      return RestartDaemon();
    }
    case StepKind::kTermDaemon:
      if (daemon_stopped_) kill(daemon_->pid(), SIGCONT);
      daemon_stopped_ = false;
      history_->Record("daemon-terminated", {{"pid", static_cast<uint64_t>(daemon_->pid())}});
      EndDaemon();
      return RestartDaemon();
    case StepKind::kStopDaemon:
      history_->Record("daemon-stopped", {});
      kill(daemon_->pid(), SIGSTOP);
      daemon_stopped_ = true;
      break;
    case StepKind::kContinueDaemon:
      if (daemon_stopped_) {
        kill(daemon_->pid(), SIGCONT);
        history_->Record("daemon-continued", {});
      }
      daemon_stopped_ = false;
      break;
    case StepKind::kStartMute:
    case StepKind::kStartDeaf:
      StartRude(step);
      break;
    case StepKind::kEndRude:
      EndRude(step.target);
      break;
  }
  return absl::OkStatus();
}

void Controller::ContinueAll() {
  for (Slot& slot : clients_) slot.child->Signal(SIGCONT);
  for (const auto& [target, pid] : stopped_hosts_) kill(pid, SIGCONT);
  if (daemon_stopped_) {
    kill(daemon_->pid(), SIGCONT);
    history_->Record("daemon-continued", {});
  }
  daemon_stopped_ = false;
}

}  // namespace kcache::chaos
