// What the corpus programs share on their command lines.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_OPTIONS_H_
#define KCACHE_TESTS_CORPUS_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>

namespace kcache::corpus {

struct Options {
  std::string directory;  // --kernels, --tests
  bool native = false;    // --native: plain OpenCL in this process
  uint32_t device = 0;    // --device
  std::string only;       // --only: one kernel, or files whose path contains this
  uint32_t shard = 0;     // --shard I/N: every Nth file, from the Ith
  uint32_t shards = 1;
};

// Nothing when the command line is wrong or names no directory.
std::optional<Options> ParseOptions(int argc, char** argv);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_OPTIONS_H_
