#include "tests/chaos/domains/hostile_compiles.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "contract/mutex.h"
#include "kcache/client.h"
#include "tests/chaos/domains/hostile_programs.h"
#include "tests/chaos/domains/player.h"
#include "tests/chaos/domains/process_tree.h"
#include "tests/chaos/domains/watcher.h"

namespace kcache::domains {
namespace {

namespace fs = std::filesystem;

// Somebody who listens on 127.0.0.1 and remembers whether anybody came.
class Listener {
 public:
  Listener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), size) == 0 && listen(fd_, 4) == 0 &&
        getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) == 0) {
      port_ = ntohs(address.sin_port);
    }
  }
  ~Listener() { close(fd_); }
  int port() const { return port_; }
  bool SomebodyCame() const {
    pollfd event{fd_, POLLIN, 0};
    return poll(&event, 1, 0) == 1;
  }

 private:
  const int fd_;
  int port_ = 0;
};

// Acquires of the other clients, by what went on at the time.
class Latencies {
 public:
  void OnLine(const std::string& line) {
    std::istringstream in(line);
    std::string word;
    int64_t end = 0, nanoseconds = 0;
    in >> word >> end >> nanoseconds;
    MutexLock lock(&mutex_);
    if (word != "acquired") {
      failures_.Add(line);
      return;
    }
    samples_.push_back({end, nanoseconds});
    changed_.NotifyAll();
  }
  // Waits for so many acquires from now on: the quiet between two hostile programs.
  void AwaitMore(size_t count) {
    const auto deadline = std::chrono::steady_clock::now() + Player::kPatience;
    MutexLock lock(&mutex_);
    const size_t wanted = samples_.size() + count;
    while (samples_.size() < wanted && changed_.WaitUntil(&mutex_, deadline)) {
    }
  }
  struct Span {
    int64_t begin, end;
  };
  // p99 in microseconds of the acquires that began and ended within one of the spans.
  double P99Within(const std::vector<Span>& spans, uint64_t* count) {
    std::vector<int64_t> within;
    MutexLock lock(&mutex_);
    for (const auto& [end, nanoseconds] : samples_) {
      for (const Span& span : spans) {
        if (end - nanoseconds >= span.begin && end <= span.end) within.push_back(nanoseconds);
      }
    }
    *count = within.size();
    if (within.empty()) return 0;
    const size_t rank = within.size() * 99 / 100;
    std::nth_element(within.begin(), within.begin() + static_cast<std::ptrdiff_t>(rank),
                     within.end());
    return static_cast<double>(within[rank]) / 1e3;
  }
  Failures failures() {
    MutexLock lock(&mutex_);
    return failures_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::vector<std::pair<int64_t, int64_t>> samples_ ABSL_GUARDED_BY(mutex_);
  Failures failures_ ABSL_GUARDED_BY(mutex_);
};

absl::StatusOr<Program> Build(const HostileProgram& hostile) {
  ProgramBuilder builder(hostile.language, hostile.source);
  for (const auto& [name, content] : hostile.headers) builder.AddHeader(name, content);
  return builder.Build();
}

// What this node can compile for.
std::vector<CompileTarget> Targets(Client* client) {
  std::vector<CompileTarget> targets;
  auto devices = client->ListDevices();
  if (devices.ok()) {
    for (const DeviceInfo& device : devices->devices) {
      if (device.id.index == 0) targets.push_back({device.id.framework, device.architecture});
    }
  }
  const auto has = [&](const std::string& framework) {
    return std::any_of(targets.begin(), targets.end(),
                       [&](const CompileTarget& one) { return one.framework == framework; });
  };
  // Compilers that need no device: asked with a program that is nothing.
  const struct {
    CompileTarget target;
    const char* language;
  } others[] = {{{"CUDA", "sm_90a"}, "cuda-c++"}, {{"HIP", "gfx90a"}, "hip-c++"}};
  for (const auto& other : others) {
    if (has(other.target.framework)) continue;
    auto program = Program::FromSource(other.language, "__global__ void nothing() {}\n");
    if (program.ok() && client->AcquireArtifact(*program, other.target).ok()) {
      targets.push_back(other.target);
    }
  }
  return targets;
}

// Where there is a device, it is asked for: that is how applications do it.
absl::StatusOr<Artifact> Compile(Client* client, const Program& program,
                                 const CompileTarget& target) {
  if (target.framework == "OpenCL" || target.framework == "Fake") {
    return client->AcquireArtifact(program, DeviceId{target.framework, 0});
  }
  return client->AcquireArtifact(program, target);
}

bool Finds(const std::string& text, const std::string& secret) {
  return !secret.empty() && text.find(secret) != std::string::npos;
}

HostileOutcome Try(Client* client, const HostileProgram& hostile) {
  HostileOutcome outcome{.kind = hostile.kind, .how = hostile.how,
                         .compiler = hostile.target.framework};
  auto program = Build(hostile);
  if (!program.ok()) {
    outcome.message = program.status().ToString();
    return outcome;
  }
  const int64_t begin = MonotonicNow();
  const auto artifact = Compile(client, *program, hostile.target);
  outcome.seconds = static_cast<double>(MonotonicNow() - begin) / 1e9;
  if (artifact.ok()) {
    const auto bytes = artifact->Bytes();
    const std::string binary(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    outcome.contained = hostile.may_compile && !Finds(binary, hostile.secret) &&
                        !Finds(artifact->build_log(), hostile.secret);
    outcome.reason = outcome.contained ? "(compiled, without it)" : "(compiled)";
    return outcome;
  }
  const Reason reason = FailureReason(artifact.status());
  const std::string message(artifact.status().message());
  outcome.reason = std::string(ReasonName(reason));
  outcome.message = message.substr(0, message.find('\n')).substr(0, 160);
  outcome.contained =
      std::find(hostile.reasons.begin(), hostile.reasons.end(), reason) != hostile.reasons.end() &&
      !Finds(message, hostile.secret);
  return outcome;
}

// A compile that runs until it is ended, and where it keeps its files.
class OtherCompile {
 public:
  OtherCompile(std::shared_ptr<Client> client, const CompileTarget& opencl)
      : client_(std::move(client)), thread_([this, opencl] {
          auto program = Build(EndlessProgram(opencl, "somebody else's"));
          if (program.ok()) Compile(client_.get(), *program, opencl).status().IgnoreError();
        }) {}
  ~OtherCompile() {
    client_->Close();
    thread_.join();
  }

 private:
  const std::shared_ptr<Client> client_;
  std::thread thread_;
};

// The private directory of a compile worker that is at work, from the daemon's work directory.
std::string DirectoryOfCompile(pid_t daemon) {
  const auto deadline = std::chrono::steady_clock::now() + Player::kPatience;
  while (std::chrono::steady_clock::now() < deadline) {
    for (const ProcessEntry& process : Tree(daemon)) {
      const std::string directory = DirectoryOf(process.pid);
      if (directory.find("compile-opencl") != std::string::npos) return directory;
    }
  }
  return "";
}

}  // namespace

absl::StatusOr<HostileReport> CompileHostilePrograms(const Cast& cast) {
  constexpr int kAcquirers = 2;
  constexpr size_t kQuietAcquires = 4000;
  // Processor time bounds those that would run for ever. A wall time as short would end, as COMPILE_TIMEOUT,
  // programs of other kinds, too, where the machine has much else to do: compiles have a low priority.
  auto daemon = testing::PrivateDaemon::Start(
      DaemonFor(cast, {"--compile.cpu-time=20s", "--compile.memory=640MiB", "--compile.workers=2",
                       "--limits.max-log-bytes=64KiB"}));
  if (!daemon.ok()) return daemon.status();
  HostileReport report;
  Latencies latencies;
  const Listener listener;
  {
    std::vector<std::unique_ptr<Player>> players;
    for (int i = 0; i < kAcquirers; ++i) {
      auto player = Player::Start(cast.first, {"acquire", (*daemon)->socket(), "OpenCL:0", "quiet"},
                                  [&](const std::string& line) { latencies.OnLine(line); });
      if (!player.ok()) return player.status();
      players.push_back(*std::move(player));
    }
    auto client = Client::Connect({.socket = (*daemon)->socket(), .name = "hostile"});
    if (!client.ok()) return client.status();
    auto other_client = Client::Connect({.socket = (*daemon)->socket(), .name = "bystander"});
    if (!other_client.ok()) return other_client.status();
    const std::vector<CompileTarget> targets = Targets(client->get());

    HostileAims aims;
    aims.daemon = (*daemon)->pid();
    aims.port = listener.port();
    aims.state_directory = (*daemon)->directory() + "/state";
    aims.secret = absl::StrCat("secret_of_", getpid());
    aims.secret_file = (*daemon)->directory() + "/secret.h";
    std::ofstream(aims.secret_file) << "int " << aims.secret << ";\n";
    fs::permissions(aims.secret_file, fs::perms(0644));
    aims.other_directory = "/nowhere";

    report.memory_before = ResidentBytes((*daemon)->pid());
    std::vector<Latencies::Span> quiet, during;
    std::map<std::string, bool> kinds;
    std::vector<HostileProgram> programs = HostilePrograms(aims, targets);
    for (HostileProgram& hostile : programs) {
      const int64_t quiet_begin = MonotonicNow();
      latencies.AwaitMore(kQuietAcquires);
      quiet.push_back({quiet_begin, MonotonicNow()});

      std::optional<OtherCompile> other;
      if (hostile.kind == "snoop") {
        other.emplace(*other_client, programs[0].target);
        aims.other_directory = DirectoryOfCompile((*daemon)->pid());
        if (aims.other_directory.empty()) return absl::InternalError("no compile to snoop on");
        hostile = HostilePrograms(aims, targets).back();
      }
      const int64_t begin = MonotonicNow();
      HostileOutcome outcome = Try(client->get(), hostile);
      if (hostile.kind == "network" && listener.SomebodyCame()) outcome.contained = false;
      during.push_back({begin, MonotonicNow()});
      const auto [kind, added] = kinds.try_emplace(outcome.kind, true);
      kind->second &= outcome.contained;
      report.outcomes.push_back(std::move(outcome));
    }
    report.kinds = static_cast<int>(kinds.size());
    for (const auto& [kind, contained] : kinds) report.kinds_contained += contained;

    auto good = Program::FromSource("opencl-c", "__kernel void good_after_all() {}\n");
    if (!good.ok()) return good.status();
    report.good_compile_after =
        (*client)->AcquireArtifact(*good, DeviceId{"OpenCL", 0}).ok() && (*daemon)->pid() > 0;
    report.memory_after = ResidentBytes((*daemon)->pid());
    for (auto& player : players) {
      if (absl::Status ended = player->Finish(); !ended.ok()) return ended;
    }
    players.clear();
    report.p99_quiet_us = latencies.P99Within(quiet, &report.acquires_quiet);
    report.p99_during_us = latencies.P99Within(during, &report.acquires_during);
  }
  report.other_failures = latencies.failures();
  if (absl::Status stopped = (*daemon)->Stop(); !stopped.ok()) return stopped;
  return report;
}

}  // namespace kcache::domains
