// Compiles the CUB corpus and says how it went; tests/corpus/cub/run.sh describes the options.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "check.h"
#include "contract/mutex.h"
#include "contract/strings.h"
#include "daemon_run.h"
#include "programs.h"
#include "tests/corpus/compile_role.h"
#include "tests/support/private_daemon.h"

namespace kcache::corpus {
namespace {

struct Options {
  std::string backend;  // the program that compiles, when no daemon does
  std::string architecture = "sm_90a";
  bool daemon = false;
  uint32_t jobs = 2;
};

bool ParseOptions(int argc, char** argv, Options* options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const size_t equals = std::min(argument.find('='), argument.size());
    const std::string_view name = argument.substr(0, equals);
    const std::string_view value = argument.substr(std::min(equals + 1, argument.size()));
    if (name == "--daemon") {
      options->daemon = true;
    } else if (name == "--backend") {
      options->backend = value;
    } else if (name == "--architecture") {
      options->architecture = value;
    } else if (name == "--jobs") {
      if (!absl::SimpleAtoi(AbslView(value), &options->jobs) || options->jobs == 0) return false;
    } else {
      return false;
    }
  }
  return options->daemon || !options->backend.empty();
}

// Prints one line a program, from any thread, and counts.
class Report {
 public:
  void Add(const CubProgram& program, const absl::Status& status, double milliseconds) {
    MutexLock lock(&mutex_);
    ++programs_;
    if (!status.ok()) ++failures_;
    std::printf("%-58s %8.0f ms  %s\n", program.name.c_str(), milliseconds,
                status.ok() ? "ok" : std::string(status.message()).c_str());
    std::fflush(stdout);
  }
  // How many could not be tried at all.
  void Missing(size_t programs, const absl::Status& why) {
    MutexLock lock(&mutex_);
    failures_ += programs;
    programs_ += programs;
    std::printf("%zu programs not tried: %s\n", programs, std::string(why.message()).c_str());
  }
  bool Summarize(size_t launched) {
    MutexLock lock(&mutex_);
    std::printf("summary: programs=%zu failures=%zu launched=%zu\n", programs_, failures_,
                launched);
    return failures_ == 0 && programs_ > 0;
  }

 private:
  Mutex mutex_;
  size_t programs_ = 0;
  size_t failures_ = 0;
};

using Trial = std::function<absl::Status(const CubProgram&)>;

// Takes programs until there are none left.
void Work(const std::vector<CubProgram>& programs, std::atomic<size_t>* next, const Trial& trial,
          Report* report) {
  for (size_t i = next->fetch_add(1); i < programs.size(); i = next->fetch_add(1)) {
    const auto start = std::chrono::steady_clock::now();
    const absl::Status status = trial(programs[i]);
    const std::chrono::duration<double, std::milli> elapsed =
        std::chrono::steady_clock::now() - start;
    report->Add(programs[i], status, elapsed.count());
  }
}

void ThroughCompileRole(const Options& options, const std::vector<CubProgram>& programs,
                        Report* report) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (uint32_t job = 0; job < options.jobs; ++job) {
    auto role = CompileRole::Start(options.backend);
    if (!role.ok()) {
      report->Missing(programs.size(), role.status());
      break;
    }
    threads.emplace_back([&, role = *std::move(role)] {
      Work(
          programs, &next,
          [&](const CubProgram& program) -> absl::Status {
            const auto artifact = role->Compile(CompileRequestOf(program, options.architecture));
            return artifact.ok() ? CheckArtifact(program, *artifact) : artifact.status();
          },
          report);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Returns how many programs were launched.
size_t ThroughDaemon(const Options& options, const std::vector<CubProgram>& programs,
                     Report* report) {
  std::atomic<size_t> next{0};
  auto first = DaemonRun::Connect(options.architecture);
  if (!first.ok()) {
    report->Missing(programs.size(), first.status());
    return 0;
  }
  std::vector<std::thread> threads;
  for (uint32_t job = 0; job < options.jobs; ++job) {
    threads.emplace_back([&] {
      auto run = DaemonRun::Connect(options.architecture);
      if (!run.ok()) return;  // the others take its share
      Work(
          programs, &next, [&](const CubProgram& program) { return (*run)->Run(program); }, report);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return (*first)->has_device() ? programs.size() : 0;
}

// A daemon of our own, unless $KCACHE_SOCKET names one.
bool StartDaemon(std::unique_ptr<testing::PrivateDaemon>* daemon) {
  if (std::getenv("KCACHE_SOCKET") != nullptr) return true;
  testing::PrivateDaemonOptions options;
  if (const char* toolkit = std::getenv("KCACHE_CUDA_TOOLKIT")) {
    options.environment["KCACHE_CUDA_TOOLKIT"] = toolkit;
  }
  auto started = testing::PrivateDaemon::Start(std::move(options));
  if (!started.ok()) {
    std::fprintf(stderr, "corpus_cub: %s\n", std::string(started.status().message()).c_str());
    return false;
  }
  *daemon = *std::move(started);
  setenv("KCACHE_SOCKET", (*daemon)->socket().c_str(), 1);
  return true;
}

}  // namespace
}  // namespace kcache::corpus

int main(int argc, char** argv) {
  kcache::corpus::Options options;
  if (!kcache::corpus::ParseOptions(argc, argv, &options)) {
    std::fprintf(
        stderr,
        "usage: corpus_cub --backend=PROGRAM | --daemon [--architecture=sm_90a] [--jobs=2]\n");
    return 2;
  }
  const std::vector<kcache::corpus::CubProgram> programs = kcache::corpus::CubPrograms();
  kcache::corpus::Report report;
  size_t launched = 0;
  std::unique_ptr<kcache::testing::PrivateDaemon> daemon;
  if (options.daemon) {
    if (!kcache::corpus::StartDaemon(&daemon)) return 1;
    launched = kcache::corpus::ThroughDaemon(options, programs, &report);
  } else {
    kcache::corpus::ThroughCompileRole(options, programs, &report);
  }
  return report.Summarize(launched) ? 0 : 1;
}
