// GLSL compute shaders to SPIR-V, through shaderc.
//
// libshaderc.so.1 is opened with dlopen: without it this backend still takes SPIR-V. Headers come
// by content only; an #include of anything else is an error with its name.
//
// Threads: a GlslCompiler is immutable; any thread.

#ifndef KCACHE_BACKENDS_VULKAN_GLSL_COMPILER_H_
#define KCACHE_BACKENDS_VULKAN_GLSL_COMPILER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace kcache::backend::vulkan {

enum class Optimization { kNone, kPerformance, kSize };

// What the flags of a GLSL program say. All that there are:
//   -O0 (default)  -O  -Os           optimization
//   --target-env=vulkan1.0 … 1.3     default vulkan1.2
//   --target-spv=spv1.0 … spv1.6     default: what the environment implies
//   -std=450 | 460 | 310es …         overrides the source's #version
//   -g                               debug information
//   -w                               no warnings
//   -Werror                          warnings are errors
struct GlslOptions {
  Optimization optimization = Optimization::kNone;
  uint32_t target_environment = 0;  // as in VkApplicationInfo::apiVersion
  uint32_t target_spirv = 0;        // 0x010300; 0: the environment's
  std::string standard;
  bool debug_information = false;
  bool suppress_warnings = false;
  bool warnings_as_errors = false;
};

// BAD_REQUEST naming the first flag that is none of the above.
absl::StatusOr<GlslOptions> ParseGlslFlags(const std::vector<std::string>& flags);

struct GlslProgram {
  std::string_view source;
  std::map<std::string, std::string_view> headers;  // by the name an #include spells
  std::vector<std::pair<std::string, std::optional<std::string>>> defines;
  GlslOptions options;
};

struct GlslResult {
  std::string spirv;
  std::string log;  // warnings
};

// COMPILE_FAILED with the log.
absl::StatusOr<GlslResult> CompileGlsl(const GlslProgram& program);

// "shaderc 2023.2, glslang 12.0.0, SPIRV-Tools v2023.1 …": what a binary depends on.
std::string GlslCompilerVersion();

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_GLSL_COMPILER_H_
