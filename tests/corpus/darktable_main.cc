// corpus_darktable: builds every program of darktable and completes one launch of each kernel.
//
//   corpus_darktable --kernels DIR [--native] [--device N] [--only PROGRAM:KERNEL]
//
// Prints a line for each failure, and as the last line
//   programs=… kernels=… failures=… seconds=…
// where seconds run from the start of main to the last kernel's first completed launch.

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/corpus/darktable.h"
#include "tests/corpus/options.h"

namespace kcache::corpus {
namespace {

struct Target {
  const DarktableProgram* program;
  const DarktableKernel* kernel;
};

void Report(const Target& target, std::string_view step, const absl::Status& status) {
  std::printf("FAILED %s:%s %.*s: %s\n", target.program->program.name.c_str(),
              target.kernel->entry.c_str(), static_cast<int>(step.size()), step.data(),
              status.ToString().c_str());
}

absl::Status LaunchOnce(Executor* executor, const Target& target, KernelId kernel) {
  absl::StatusOr<std::vector<ArgumentValue>> arguments =
      DarktableArguments(executor, *target.kernel, executor->Info(kernel));
  if (!arguments.ok()) return arguments.status();
  if (absl::Status status = executor->Launch(kernel, DarktableLaunch(), *arguments); !status.ok()) {
    return status;
  }
  return executor->Synchronize();
}

int Run(const Options& options) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);  // a crash must not lose lines
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<std::unique_ptr<Executor>> executor =
      options.native ? MakeNativeExecutor(options.device) : MakeDaemonExecutor(options.device);
  if (!executor.ok()) {
    std::fprintf(stderr, "%s\n", executor.status().ToString().c_str());
    return 2;
  }
  absl::StatusOr<std::vector<DarktableProgram>> programs =
      ReadDarktable(options.directory, (*executor)->Vendor());
  if (!programs.ok()) {
    std::fprintf(stderr, "%s\n", programs.status().ToString().c_str());
    return 2;
  }
  std::vector<Target> targets;
  std::vector<KernelName> names;
  for (const DarktableProgram& program : *programs) {
    for (const DarktableKernel& kernel : program.kernels) {
      if (!options.only.empty() && options.only != program.program.name + ":" + kernel.entry)
        continue;
      targets.push_back({&program, &kernel});
      names.push_back({&program.program, kernel.entry});
    }
  }

  size_t failures = 0;
  const std::vector<absl::StatusOr<KernelId>> kernels = (*executor)->Acquire(names);
  for (size_t i = 0; i < targets.size(); ++i) {
    absl::Status status = kernels[i].status();
    const char* step = "acquire";
    if (status.ok()) {
      step = "launch";
      status = LaunchOnce(executor->get(), targets[i], *kernels[i]);
      (*executor)->ReleaseMemory();
    }
    if (status.ok()) continue;
    ++failures;
    Report(targets[i], step, status);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("programs=%zu kernels=%zu failures=%zu seconds=%.4f\n", programs->size(),
              targets.size(), failures, seconds.count());
  return failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace kcache::corpus

int main(int argc, char** argv) {
  const std::optional<kcache::corpus::Options> options = kcache::corpus::ParseOptions(argc, argv);
  if (!options) {
    std::fprintf(stderr,
                 "usage: %s --kernels DIR [--native] [--device N] [--only PROGRAM:KERNEL]\n",
                 argv[0]);
    return 2;
  }
  const int code = kcache::corpus::Run(*options);
  std::fflush(nullptr);
  std::_Exit(code);  // OpenCL drivers keep threads that must not see the process's destructors
}
