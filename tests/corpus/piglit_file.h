// piglit's OpenCL program tests: a .cl file whose first comment, between /*! and !*/, says how to
// build it, what to launch and what must come out. The format is described in piglit's
// doc_program.cl.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_PIGLIT_FILE_H_
#define KCACHE_TESTS_CORPUS_PIGLIT_FILE_H_

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kcache/v1/execution.pb.h"
#include "tests/corpus/piglit_values.h"

namespace kcache::corpus {

struct PiglitArgument {
  enum class Kind { kValue, kBuffer, kNull, kImage, kSampler };
  Kind kind = Kind::kValue;
  uint32_t index = 0;
  ValueType type;
  std::string bytes;  // kNull has none
  Tolerance tolerance;
  v1::ImageDescription image;
  v1::Sampler sampler;
};

struct PiglitTest {
  std::string name;
  std::string kernel;
  uint32_t dimensions = 1;
  std::array<uint32_t, 3> global{1, 1, 1};
  std::optional<std::array<uint32_t, 3>> local = std::array<uint32_t, 3>{1, 1, 1};
  std::array<uint32_t, 3> offset{0, 0, 0};
  bool expect_fail = false;
  std::vector<PiglitArgument> in;
  std::vector<PiglitArgument> out;
};

struct PiglitFile {
  std::string name;
  std::string source;  // all of the file
  std::vector<std::string> build_options;
  uint32_t minimum_version = 0;  // OpenCL C, 12 is 1.2; 0: any
  uint32_t maximum_version = 0;
  std::string platform_regex;
  std::string device_regex;
  std::vector<std::string> device_extensions;
  bool needs_images = false;
  bool expect_build_fail = false;
  std::vector<PiglitTest> tests;
};

// A file without a comment block is built and has no tests. Failures name the line.
absl::StatusOr<PiglitFile> ParsePiglitFile(std::string_view text);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_PIGLIT_FILE_H_
