#include "tests/corpus/vkfft/run.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/corpus/compile_role.h"
#include "tests/corpus/vkfft/options.h"
#include "tests/support/private_daemon.h"

namespace kcache::corpus {
namespace {

// Over a few passes.
double Tolerance(const Plan& plan) { return plan.double_precision ? 1e-12 : 2e-5; }

// Forward against the definition, and back against what was given.
absl::Status Check(Transform* transform, const Plan& plan) {
  const std::vector<Value> in = InputOf(plan);
  std::vector<Value> out, back;
  if (absl::Status status = transform->Run(Direction::kForward, in, &out); !status.ok()) {
    return status;
  }
  if (const double off = Difference(out, Transformed(plan, in)); !(off <= Tolerance(plan))) {
    return absl::DataLossError(absl::StrCat("the transform is off by ", off));
  }
  if (absl::Status status = transform->Run(Direction::kInverse, out, &back); !status.ok()) {
    return status;
  }
  if (const double off = Difference(Meant(plan, back), Meant(plan, in));
      !(off <= Tolerance(plan))) {
    return absl::DataLossError(absl::StrCat("there and back is off by ", off));
  }
  return absl::OkStatus();
}

class Report {
 public:
  explicit Report(std::string only) : only_(std::move(only)) {}

  void Run(const Api& api, const Place& place) {
    for (const Plan& plan : Plans(api.offsets)) {
      if (plan.name().find(only_) == std::string::npos) continue;
      // A new one each, so that one plan's failure is not the next one's.
      const std::unique_ptr<Transform> transform = api.make(place);
      absl::Status status = transform->Make(plan);
      if (status.ok() && place.device != nullptr) {
        status = Check(transform.get(), plan);
        if (status.ok()) ++checked_;
      }
      Add(place, plan, status, transform->counts());
    }
  }

  bool Summarize(const absl::Status& stopped) const {
    if (!stopped.ok()) std::printf("FAILED to stop: %s\n", stopped.ToString().c_str());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start_;
    std::printf(
        "summary: plans=%d failed=%d programs=%d compiled=%d launches=%d checked=%d seconds=%.1f\n",
        plans_, failed_, total_.programs, total_.compiled, total_.launches, checked_, took.count());
    return failed_ == 0 && total_.compiled > 0 && stopped.ok();
  }

 private:
  void Add(const Place& place, const Plan& plan, const absl::Status& status, const Counts& counts) {
    ++plans_;
    if (status.ok()) {
      std::printf("ok %s %s: %d programs, %d launches\n", place.architecture.c_str(),
                  plan.name().c_str(), counts.programs, counts.launches);
    } else {
      ++failed_;
      std::printf("FAILED %s %s: %s\n", place.architecture.c_str(), plan.name().c_str(),
                  status.ToString().c_str());
    }
    total_.programs += counts.programs;
    total_.compiled += counts.compiled;
    total_.launches += counts.launches;
  }

  const std::string only_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  int plans_ = 0, failed_ = 0, checked_ = 0;
  Counts total_;
};

absl::StatusOr<std::unique_ptr<testing::PrivateDaemon>> StartDaemon() {
  testing::PrivateDaemonOptions options;
  if (const char* toolkit = std::getenv("KCACHE_CUDA_TOOLKIT")) {
    options.environment["KCACHE_CUDA_TOOLKIT"] = toolkit;
  }
  return testing::PrivateDaemon::Start(std::move(options));
}

absl::Status ThroughDaemon(const Api& api, const VkfftOptions& options, Report* report) {
  ClientOptions client_options;
  client_options.name = api.program;
  auto client = Client::Connect(client_options);
  if (!client.ok()) return client.status();
  auto list = (*client)->ListDevices();
  if (!list.ok()) return list.status();
  const DeviceId id{api.framework, options.device};
  Place place{.framework = api.framework, .client = client->get()};
  for (const DeviceInfo& one : list->devices) {
    if (one.id == id) place.device = &one;
  }
  if (place.device != nullptr) {
    place.architecture = place.device->architecture;
    report->Run(api, place);
  } else if (api.architectures.empty()) {
    std::string why;
    for (const UnavailableFamily& family : list->unavailable) {
      if (family.family == api.framework) why = ": " + family.reason;
    }
    return absl::NotFoundError(absl::StrCat("there is no ", id.ToString(), why));
  } else {
    for (const std::string& architecture : options.architectures) {
      place.architecture = architecture;
      report->Run(api, place);
    }
  }
  (*client)->Close();
  return absl::OkStatus();
}

absl::Status ThroughCompileRole(const Api& api, const VkfftOptions& options, Report* report) {
  auto role = CompileRole::Start(options.backend);
  if (!role.ok()) return role.status();
  for (const std::string& architecture : options.architectures) {
    report->Run(api,
                {.framework = api.framework, .architecture = architecture, .role = role->get()});
  }
  return absl::OkStatus();
}

}  // namespace

int RunCorpus(const Api& api, int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a line shows when it is written, also in a file
  const absl::StatusOr<VkfftOptions> options = ParseVkfftOptions(argc, argv, api.architectures);
  const std::string usage = VkfftUsage(api.program, api.architectures);
  if (!options.ok()) {
    std::fprintf(stderr, "%s: %s\n%s", api.program.c_str(),
                 std::string(options.status().message()).c_str(), usage.c_str());
    return 2;
  }
  if (options->help) {
    std::printf("%s", usage.c_str());
    return 0;
  }
  Report report(options->only);
  absl::Status done, stopped;
  if (!options->backend.empty()) {
    done = ThroughCompileRole(api, *options, &report);
  } else {
    std::unique_ptr<testing::PrivateDaemon> daemon;
    if (std::getenv("KCACHE_SOCKET") == nullptr) {
      auto started = StartDaemon();
      done = started.status();
      if (started.ok()) {
        daemon = *std::move(started);
        setenv("KCACHE_SOCKET", daemon->socket().c_str(), 1);
      }
    }
    if (done.ok()) done = ThroughDaemon(api, *options, &report);
    if (daemon != nullptr) stopped = daemon->Stop();
  }
  if (!done.ok()) std::printf("FAILED: %s\n", done.ToString().c_str());
  return report.Summarize(stopped) && done.ok() ? 0 : 1;
}

}  // namespace kcache::corpus
