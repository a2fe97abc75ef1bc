// The programs' command line; run.h says what it means.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_OPTIONS_H_
#define KCACHE_TESTS_CORPUS_VKFFT_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kcache::corpus {

struct VkfftOptions {
  bool help = false;
  bool daemon = false;
  std::string backend;  // empty: through the daemon
  std::vector<std::string> architectures;
  uint32_t device = 0;
  std::string only;  // plans whose names contain it
};

// `architectures`: the default, comma-separated; empty when the API needs a device.
absl::StatusOr<VkfftOptions> ParseVkfftOptions(int argc, char** argv,
                                               const std::string& architectures);

// Several lines, for --help.
std::string VkfftUsage(const std::string& program, const std::string& architectures);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_OPTIONS_H_
