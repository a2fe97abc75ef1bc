// kcache-chaos: makes a run from a seed, validates it, prints what was found. tests/chaos/run.sh builds and
// calls it.
//
//   kcache-chaos [--seconds=N] [--seed=N] [--backend=fake|opencl|both] [--clients=N] [--keep=DIRECTORY]
//   kcache-chaos --broken=fence|ack-wait …       a daemon or host with a mutation: must be caught
//   kcache-chaos --validate=DIRECTORY            the histories of an earlier run
//   kcache-chaos --plan …                        prints the script that a seed stands for

#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "tests/chaos/controller.h"
#include "tests/chaos/report.h"

namespace kcache::chaos {
namespace {

namespace fs = std::filesystem;

// Runs shorter than this may be too short for every validator to see a fact.
constexpr uint64_t kLongEnoughSeconds = 60;

// What each mutation must be caught by.
const std::map<std::string, std::string, std::less<>> kCatchers = {
    {"fence", "executes-after-release"}, {"ack-wait", "release-waits"}};

using Arguments = std::map<std::string, std::string, std::less<>>;

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (!argument.starts_with("--")) return false;
    argument.remove_prefix(2);
    const size_t equals = std::min(argument.find('='), argument.size());
    auto found = arguments->find(argument.substr(0, equals));
    if (found == arguments->end()) return false;
    found->second = equals == argument.size() ? "yes" : std::string(argument.substr(equals + 1));
  }
  return true;
}

uint64_t Number(const std::string& text) { return std::strtoull(text.c_str(), nullptr, 10); }

std::string Built(const std::string& relative) {
  const char* directory = std::getenv("KCACHE_BINARY_DIR");
  return std::string(directory == nullptr ? "." : directory) + "/" + relative;
}

int PrintPlan(const PlanOptions& options) {
  for (const Step& step : MakePlan(options)) {
    std::printf("%8.3f s  %-18s target %u", static_cast<double>(step.at_ms) / 1000,
                std::string(Name(step.kind)).c_str(), step.target);
    if (step.duration_ms != 0) {
      std::printf(" for %llu ms", static_cast<unsigned long long>(step.duration_ms));
    }
    std::printf("\n");
  }
  return 0;
}

int Judge(const std::string& directory, const Arguments& arguments, uint64_t seed) {
  auto run = Run::Load(directory);
  if (!run.ok()) {
    std::fprintf(stderr, "%s\n", run.status().ToString().c_str());
    return 1;
  }
  const std::string& broken = arguments.at("broken");
  const bool long_enough = Number(arguments.at("seconds")) >= kLongEnoughSeconds;
  const Outcome outcome = Report(**run, broken.empty() && long_enough);
  std::printf("summary: seed=%llu backend=%s seconds=%s operations=%llu faults=%llu violations=%llu",
              static_cast<unsigned long long>(seed), arguments.at("backend").c_str(),
              arguments.at("seconds").c_str(), static_cast<unsigned long long>(outcome.operations),
              static_cast<unsigned long long>(outcome.faults),
              static_cast<unsigned long long>(outcome.violations));
  if (broken.empty()) {
    std::printf("\n");
    return outcome.violations == 0 ? 0 : 1;
  }
  const bool caught = std::find(outcome.violated.begin(), outcome.violated.end(),
                                kCatchers.at(broken)) != outcome.violated.end();
  std::printf(" broken=%s caught=%d\n", broken.c_str(), caught ? 1 : 0);
  return caught ? 0 : 1;
}

int Main(int argc, char** argv) {
  Arguments arguments = {{"seconds", "60"}, {"seed", ""},   {"backend", "both"}, {"clients", "20"},
                         {"keep", ""},      {"broken", ""}, {"validate", ""},    {"plan", ""}};
  const bool parsed = Parse(argc, argv, &arguments);
  const std::string &backend = arguments["backend"], &broken = arguments["broken"];
  if (!parsed || (backend != "fake" && backend != "opencl" && backend != "both") ||
      (!broken.empty() && !kCatchers.contains(broken)) || Number(arguments["clients"]) == 0) {
    std::fprintf(stderr, "usage: see the head of tests/chaos/main.cc\n");
    return 2;
  }
  const uint64_t seed =
      arguments["seed"].empty() ? std::random_device()() : Number(arguments["seed"]);
  if (!arguments["validate"].empty()) return Judge(arguments["validate"], arguments, seed);

  ControllerOptions options;
  options.plan = {.seed = seed,
                  .seconds = Number(arguments["seconds"]),
                  .clients = static_cast<uint32_t>(Number(arguments["clients"]))};
  if (!arguments["plan"].empty()) return PrintPlan(options.plan);
  options.daemon = Built(broken == "ack-wait" ? "tests/chaos/broken_ack_wait/kcached" : "daemon/kcached");
  if (backend != "opencl") {
    options.devices = {{"Fake", 0}, {"Fake", 1}};
    options.backend_directories.push_back(
        Built(broken == "fence" ? "tests/chaos/broken_fence" : "backends/fake"));
  }
  if (backend != "fake") {
    options.devices.push_back({"OpenCL", 0});
    options.backend_directories.push_back(Built("backends/opencl"));
  }
  std::string directory = arguments["keep"];
  if (directory.empty()) {
    directory = "/tmp/kcache-chaos-XXXXXX";
    if (mkdtemp(directory.data()) == nullptr) return 1;
  } else {
    fs::create_directories(directory);
  }
  chmod(directory.c_str(), 0755);
  options.histories = directory;
  signal(SIGPIPE, SIG_IGN);
  std::printf("seed %llu; histories in %s\n", static_cast<unsigned long long>(seed),
              directory.c_str());
  std::fflush(stdout);
  Controller controller(std::move(options));
  if (absl::Status ran = controller.Run(); !ran.ok()) {
    std::fprintf(stderr, "the run could not be made: %s\n", ran.ToString().c_str());
    return 1;
  }
  const int result = Judge(directory, arguments, seed);
  // Kept where there is something to look at.
  std::error_code ignored;
  if (result == 0 && arguments["keep"].empty()) fs::remove_all(directory, ignored);
  return result;
}

}  // namespace
}  // namespace kcache::chaos

int main(int argc, char** argv) { return kcache::chaos::Main(argc, argv); }
