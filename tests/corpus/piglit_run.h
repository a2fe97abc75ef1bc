// Running one of piglit's OpenCL test files and judging it.
//
// Threads: one.

#ifndef KCACHE_TESTS_CORPUS_PIGLIT_RUN_H_
#define KCACHE_TESTS_CORPUS_PIGLIT_RUN_H_

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "tests/corpus/executor.h"
#include "tests/corpus/piglit_file.h"

namespace kcache::corpus {

// What decides whether a file applies to a device at all.
struct DeviceTraits {
  std::string platform_version;
  std::string device_name;
  std::string extensions;
  uint32_t opencl_c_version = 0;  // 12 is 1.2
  uint32_t max_local_size = 0;
};

// Why `file` does not apply; empty when it does.
std::string ReasonToSkip(const PiglitFile& file, const DeviceTraits& device);

struct CaseResult {
  enum class Outcome { kPassed, kFailed, kSkipped };
  std::string name;
  Outcome outcome = Outcome::kPassed;
  std::string detail;
};

// One result for each test; for a file that only has to build, or must not, one in all.
std::vector<CaseResult> RunPiglitFile(
    const PiglitFile& file, const std::string& name,
    const std::vector<std::pair<std::string, std::string>>& headers, const DeviceTraits& device,
    Executor* executor);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_PIGLIT_RUN_H_
