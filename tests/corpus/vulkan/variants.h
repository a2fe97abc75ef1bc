// The shader variants that llama.cpp's own generator asks glslc for, as kcache programs.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_VULKAN_VARIANTS_H_
#define KCACHE_TESTS_CORPUS_VULKAN_VARIANTS_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "kcache/client.h"

namespace kcache::corpus {

struct Variant {
  std::string name;  // "matmul_q4_0_f32_aligned_fp32"
  std::string source_file;
  std::vector<std::string> flags;
  std::vector<std::pair<std::string, std::optional<std::string>>> defines;
};

// What record_glslc.py has written, sorted by name. A source that is not named from the root is
// below the record's folder.
absl::StatusOr<std::vector<Variant>> ReadRecord(const std::string& path);

// The program, with exactly the headers that its source includes, directly or not.
absl::StatusOr<Program> ProgramOf(const Variant& variant);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VULKAN_VARIANTS_H_
