#include <shaderc/env.h>

#include <array>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "backends/vulkan/glsl_compiler.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::vulkan {
namespace {

struct Named {
  std::string_view name;
  uint32_t value;
};

constexpr std::array<Named, 4> kEnvironments = {{{"vulkan1.0", shaderc_env_version_vulkan_1_0},
                                                 {"vulkan1.1", shaderc_env_version_vulkan_1_1},
                                                 {"vulkan1.2", shaderc_env_version_vulkan_1_2},
                                                 {"vulkan1.3", shaderc_env_version_vulkan_1_3}}};

constexpr std::array<Named, 7> kSpirvVersions = {{{"spv1.0", shaderc_spirv_version_1_0},
                                                  {"spv1.1", shaderc_spirv_version_1_1},
                                                  {"spv1.2", shaderc_spirv_version_1_2},
                                                  {"spv1.3", shaderc_spirv_version_1_3},
                                                  {"spv1.4", shaderc_spirv_version_1_4},
                                                  {"spv1.5", shaderc_spirv_version_1_5},
                                                  {"spv1.6", shaderc_spirv_version_1_6}}};

template <size_t N>
uint32_t Lookup(const std::array<Named, N>& table, std::string_view name) {
  for (const Named& entry : table) {
    if (entry.name == name) return entry.value;
  }
  return 0;
}

}  // namespace

absl::StatusOr<GlslOptions> ParseGlslFlags(const std::vector<std::string>& flags) {
  GlslOptions options;
  options.target_environment = shaderc_env_version_vulkan_1_2;
  for (const std::string& flag : flags) {
    const std::string_view text = flag;
    const auto value_of = [&](std::string_view prefix) { return text.substr(prefix.size()); };
    bool known = true;
    if (text == "-O0") {
      options.optimization = Optimization::kNone;
    } else if (text == "-O") {
      options.optimization = Optimization::kPerformance;
    } else if (text == "-Os") {
      options.optimization = Optimization::kSize;
    } else if (text == "-g") {
      options.debug_information = true;
    } else if (text == "-w") {
      options.suppress_warnings = true;
    } else if (text == "-Werror") {
      options.warnings_as_errors = true;
    } else if (text.starts_with("--target-env=")) {
      options.target_environment = Lookup(kEnvironments, value_of("--target-env="));
      known = options.target_environment != 0;
    } else if (text.starts_with("--target-spv=")) {
      options.target_spirv = Lookup(kSpirvVersions, value_of("--target-spv="));
      known = options.target_spirv != 0;
    } else if (text.starts_with("-std=") && text.size() > 5) {
      options.standard = std::string(value_of("-std="));
    } else {
      known = false;
    }
    if (!known) {
      return MakeError(
          v1::BAD_REQUEST,
          absl::StrCat("unknown GLSL flag ", Quoted(flag),
                       "; known: -O0 -O -Os -g -w -Werror -std=… --target-env=vulkan1.0 … "
                       "vulkan1.3 --target-spv=spv1.0 … spv1.6"));
    }
  }
  return options;
}

}  // namespace kcache::backend::vulkan
