// corpus_vulkan --record=FILE [--pipelines=N] [--compile-limit=N] [--seconds-each=S] [--seconds=S]
//               [--device=I]
//
// Compiles every recorded variant to SPIR-V, makes N pipelines on the device (of those whose result
// can be checked, then of the smallest others), runs the former and compares their results, and prints
// one line for each that failed. After --seconds no more pipelines are begun, and a line says how many
// were not. Uses the daemon at $KCACHE_SOCKET, or a private one of its own. Last
// line: `summary: key=value …`. Exit status 0: nothing failed but what is beyond the device (a
// capability) or the time for one pipeline, and 90 pipelines (or N, if that is less) were made.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kcache/client.h"
#include "tests/corpus/vulkan/cases.h"
#include "tests/corpus/vulkan/checks.h"
#include "tests/corpus/vulkan/variants.h"
#include "tests/support/private_daemon.h"

namespace kcache::corpus {
namespace {

constexpr size_t kFewest = 90;  // pipelines, for the run to be good

struct Options {
  std::string record;
  size_t pipelines = 150;
  size_t compile_limit = SIZE_MAX;  // of variants, by name
  int seconds_each = 60;            // for one pipeline
  double seconds = 1e9;             // from the start, in which pipelines are begun
  uint32_t device = 0;
};

struct Counts {
  std::atomic<int> compiled{0}, failed{0}, pipelines{0}, beyond_device{0}, too_slow{0}, not_begun{0},
      ran{0}, wrong{0};
};

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void Report(const char* what, const Variant& variant, const absl::Status& status) {
  std::printf("%s %s: %s\n", what, variant.name.c_str(), status.ToString().c_str());
}

// Calls `one` for each, from a thread a processor.
void ForEach(const std::vector<Variant>& variants, const std::function<void(const Variant&)>& one) {
  std::atomic<size_t> next{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < std::max(1u, std::thread::hardware_concurrency()); ++t) {
    threads.emplace_back([&] {
      for (size_t i; (i = next++) < variants.size();) one(variants[i]);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

absl::StatusOr<Artifact> CompileOne(Client& client, const Variant& variant) {
  auto program = ProgramOf(variant);
  if (!program.ok()) return program.status();
  return client.AcquireArtifact(*program, CompileTarget{"Vulkan", "spirv"});
}

// Name → size of its SPIR-V.
std::map<std::string, size_t> CompileAll(Client& client, const std::vector<Variant>& variants,
                                         Counts* counts) {
  std::map<std::string, size_t> sizes;
  std::mutex mutex;
  ForEach(variants, [&](const Variant& variant) {
    auto artifact = CompileOne(client, variant);
    if (!artifact.ok()) {
      ++counts->failed;
      Report("FAILED compile", variant, artifact.status());
      return;
    }
    ++counts->compiled;
    const std::lock_guard<std::mutex> lock(mutex);
    sizes[variant.name] = artifact->Bytes().size();
  });
  return sizes;
}

// The kernels that were made, by variant.
std::map<std::string, Kernel> MakePipelines(Client& client, const std::vector<Variant>& variants,
                                            const Options& options, Clock::time_point start,
                                            Counts* counts) {
  std::map<std::string, Kernel> kernels;
  std::mutex mutex;
  ForEach(variants, [&](const Variant& variant) {
    if (SecondsSince(start) > options.seconds) {
      ++counts->not_begun;
      return;
    }
    auto program = ProgramOf(variant);
    if (!program.ok()) return;  // reported by the compile
    const auto wanted = Cases().find(variant.name);
    auto kernel = client.Acquire({
        .program = *program,
        .entry = "main",
        .device = {"Vulkan", options.device},
        .specialization =
            wanted == Cases().end() ? Specialization{} : wanted->second.specialization,
        .timeout = std::chrono::seconds(options.seconds_each),
    });
    if (kernel.ok()) {
      ++counts->pipelines;
      const std::lock_guard<std::mutex> lock(mutex);
      kernels.emplace(variant.name, *std::move(kernel));
      return;
    }
    const Reason reason = FailureReason(kernel.status());
    if (reason == Reason::kUnsupportedArchitecture) {
      ++counts->beyond_device;
      Report("beyond this device:", variant, kernel.status());
    } else if (reason == Reason::kDeadlineExceeded || reason == Reason::kCompileTimeout) {
      ++counts->too_slow;
      Report("too slow here:", variant, kernel.status());
    } else {
      ++counts->failed;
      Report("FAILED pipeline", variant, kernel.status());
    }
  });
  return kernels;
}

void RunAll(Client& client, const std::map<std::string, Kernel>& kernels, const Options& options,
            Counts* counts) {
  for (const auto& [name, wanted] : Cases()) {
    const auto kernel = kernels.find(name);
    if (kernel == kernels.end()) continue;  // reported, or not asked for
    ++counts->ran;
    const absl::Status checked =
        Check(client, {"Vulkan", options.device}, kernel->second, wanted);
    if (checked.ok()) continue;
    ++counts->wrong;
    std::printf("WRONG %s: %s\n", name.c_str(), checked.ToString().c_str());
  }
}

// `count` of them: what can be checked, then the smallest by SPIR-V size.
std::vector<Variant> Choose(std::vector<Variant> variants,
                            const std::map<std::string, size_t>& sizes, size_t count) {
  const auto rank = [&](const Variant& variant) {
    return std::pair(Cases().count(variant.name) != 0 ? 0 : 1, sizes.at(variant.name));
  };
  std::erase_if(variants, [&](const Variant& variant) { return sizes.count(variant.name) == 0; });
  std::sort(variants.begin(), variants.end(),
            [&](const Variant& a, const Variant& b) { return rank(a) < rank(b); });
  if (variants.size() > count) variants.resize(count);
  return variants;
}

int Run(const Options& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a line shows when it is written, also in a file
  const Clock::time_point start = Clock::now();
  auto variants = ReadRecord(options.record);
  if (!variants.ok()) {
    std::fprintf(stderr, "%s\n", variants.status().ToString().c_str());
    return 1;
  }
  std::unique_ptr<testing::PrivateDaemon> daemon;
  ClientOptions client_options;
  client_options.name = "corpus_vulkan";
  if (std::getenv("KCACHE_SOCKET") == nullptr) {
    // A driver that opens its device to compile does so once a worker, not once a program.
    testing::PrivateDaemonOptions daemon_options;
    daemon_options.flags = {"--compile.jobs-per-worker=64"};
    auto started = testing::PrivateDaemon::Start(daemon_options);
    if (!started.ok()) {
      std::fprintf(stderr, "%s\n", started.status().ToString().c_str());
      return 1;
    }
    daemon = *std::move(started);
    client_options.socket = daemon->socket();
  }
  auto client = Client::Connect(client_options);
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  const size_t recorded = variants->size();
  if (variants->size() > options.compile_limit) {
    std::stable_partition(
        variants->begin(), variants->end(),
        [](const Variant& variant) { return Cases().count(variant.name) != 0; });
    variants->resize(options.compile_limit);
  }
  Counts counts;
  const std::map<std::string, size_t> sizes = CompileAll(**client, *variants, &counts);
  const double compile_seconds = SecondsSince(start);
  {
    const std::map<std::string, Kernel> kernels = MakePipelines(
        **client, Choose(*variants, sizes, options.pipelines), options, start, &counts);
    RunAll(**client, kernels, options, &counts);
  }
  if (counts.not_begun > 0) {
    std::printf("%d pipelines not begun: %.0f seconds had passed\n", counts.not_begun.load(),
                options.seconds);
  }
  (*client)->Close();
  const absl::Status stopped = daemon != nullptr ? daemon->Stop() : absl::OkStatus();
  if (!stopped.ok()) std::printf("FAILED to stop: %s\n", stopped.ToString().c_str());
  std::printf(
      "summary: recorded=%zu variants=%zu compiled=%d failed=%d pipelines=%d beyond_device=%d "
      "too_slow=%d not_begun=%d ran=%d wrong=%d compile_s=%.1f seconds=%.1f\n",
      recorded, variants->size(), counts.compiled.load(), counts.failed.load(),
      counts.pipelines.load(), counts.beyond_device.load(), counts.too_slow.load(),
      counts.not_begun.load(),
      counts.ran.load(), counts.wrong.load(), compile_seconds, SecondsSince(start));
  const int enough = static_cast<int>(std::min<size_t>(kFewest, options.pipelines));
  const bool good = counts.failed == 0 && counts.wrong == 0 && stopped.ok() &&
                    counts.pipelines >= enough && counts.ran > 0;
  return good ? 0 : 1;
}

}  // namespace
}  // namespace kcache::corpus

int main(int argc, char** argv) {
  kcache::corpus::Options options;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&](const char* flag) -> const char* {
      const size_t length = std::strlen(flag);
      return std::strncmp(argv[i], flag, length) == 0 ? argv[i] + length : nullptr;
    };
    if (const char* record = value("--record=")) {
      options.record = record;
    } else if (const char* pipelines = value("--pipelines=")) {
      options.pipelines = std::strtoul(pipelines, nullptr, 10);
    } else if (const char* limit = value("--compile-limit=")) {
      options.compile_limit = std::strtoul(limit, nullptr, 10);
    } else if (const char* seconds = value("--seconds-each=")) {
      options.seconds_each = std::atoi(seconds);
    } else if (const char* all_seconds = value("--seconds=")) {
      options.seconds = std::strtod(all_seconds, nullptr);
    } else if (const char* device = value("--device=")) {
      options.device = static_cast<uint32_t>(std::strtoul(device, nullptr, 10));
    } else {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return 2;
    }
  }
  if (options.record.empty()) {
    std::fprintf(stderr,
                 "usage: corpus_vulkan --record=FILE [--pipelines=N] [--compile-limit=N] "
                 "[--seconds-each=S] [--seconds=S] [--device=I]\n");
    return 2;
  }
  return kcache::corpus::Run(options);
}
