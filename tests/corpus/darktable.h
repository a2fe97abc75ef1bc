// darktable's OpenCL programs as it builds them, and arguments with which each of their kernels can
// be launched.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_DARKTABLE_H_
#define KCACHE_TESTS_CORPUS_DARKTABLE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/corpus/executor.h"

namespace kcache::corpus {

// What the sources say about one kernel.
struct DarktableKernel {
  std::string entry;
  std::string body;  // its text, from its name on
};

struct DarktableProgram {
  CorpusProgram program;
  std::vector<DarktableKernel> kernels;
};

// The programs that `directory`/programs.conf lists, each with every header of the directory, as
// they are built for a device of `vendor` (CL_DEVICE_VENDOR).
absl::StatusOr<std::vector<DarktableProgram>> ReadDarktable(const std::string& directory,
                                                            const std::string& vendor);

// How every kernel is launched: a small image, in groups as darktable's own.
LaunchSizes DarktableLaunch();

// Creates memory for each argument: zeroed buffers, images with one value, sizes of the image where
// an argument's name says so.
absl::StatusOr<std::vector<ArgumentValue>> DarktableArguments(Executor* executor,
                                                              const DarktableKernel& kernel,
                                                              const v1::KernelInfo& info);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_DARKTABLE_H_
