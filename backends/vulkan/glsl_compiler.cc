#include "backends/vulkan/glsl_compiler.h"

#include <glslang/Public/ShaderLang.h>
#include <shaderc/shaderc.h>
#include <spirv-tools/libspirv.h>

#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::vulkan {
namespace {

// What #include finds: the program's headers and nothing else.
class Includes {
 public:
  explicit Includes(const std::map<std::string, std::string_view>& headers) : headers_(headers) {}

  static shaderc_include_result* Resolve(void* user, const char* requested, int type,
                                         const char* requesting, size_t) {
    const auto* self = static_cast<const Includes*>(user);
    auto result = std::make_unique<Answer>();
    const std::string name = self->NameOf(requested, type, requesting);
    const auto found = self->headers_.find(name);
    if (found != self->headers_.end()) {
      result->name = name;
      result->content = std::string(found->second);
    } else {
      // An empty name marks a failure; the content is its message.
      result->content =
          absl::StrCat("header ", Quoted(requested), " is not among the program's headers");
    }
    result->view.source_name = result->name.c_str();
    result->view.source_name_length = result->name.size();
    result->view.content = result->content.c_str();
    result->view.content_length = result->content.size();
    result->view.user_data = result.get();
    return &result.release()->view;
  }

  static void Release(void*, shaderc_include_result* result) {
    delete static_cast<Answer*>(result->user_data);
  }

 private:
  struct Answer {
    std::string name, content;
    shaderc_include_result view{};
  };

  // #include "x" looks beside the file it stands in first, both forms then among all names.
  std::string NameOf(const char* requested, int type, const char* requesting) const {
    const std::filesystem::path path(requested);
    if (type == shaderc_include_type_relative) {
      const std::string beside = (std::filesystem::path(requesting).parent_path() / path)
                                     .lexically_normal()
                                     .generic_string();
      if (headers_.count(beside) != 0) return beside;
    }
    return path.lexically_normal().generic_string();
  }

  const std::map<std::string, std::string_view>& headers_;
};

shaderc_optimization_level LevelOf(Optimization optimization) {
  switch (optimization) {
    case Optimization::kPerformance:
      return shaderc_optimization_level_performance;
    case Optimization::kSize:
      return shaderc_optimization_level_size;
    case Optimization::kNone:
      break;
  }
  return shaderc_optimization_level_zero;
}

}  // namespace

std::string GlslCompilerVersion() {
  const glslang::Version glslang = glslang::GetVersion();
  return absl::StrCat("shaderc ", KCACHE_SHADERC_VERSION, ", glslang ", glslang.major, ".",
                      glslang.minor, ".", glslang.patch, ", ", spvSoftwareVersionDetailsString());
}

absl::StatusOr<GlslResult> CompileGlsl(const GlslProgram& program) {
  const std::unique_ptr<shaderc_compiler, decltype(&shaderc_compiler_release)> compiler(
      shaderc_compiler_initialize(), shaderc_compiler_release);
  const std::unique_ptr<shaderc_compile_options, decltype(&shaderc_compile_options_release)>
      options(shaderc_compile_options_initialize(), shaderc_compile_options_release);
  if (compiler == nullptr || options == nullptr) {
    return MakeError(v1::INTERNAL, "shaderc cannot be initialized");
  }
  const GlslOptions& flags = program.options;
  shaderc_compile_options_set_optimization_level(options.get(), LevelOf(flags.optimization));
  shaderc_compile_options_set_target_env(options.get(), shaderc_target_env_vulkan,
                                         flags.target_environment);
  if (flags.target_spirv != 0) {
    shaderc_compile_options_set_target_spirv(
        options.get(), static_cast<shaderc_spirv_version>(flags.target_spirv));
  }
  if (!flags.standard.empty()) {
    int version = 0;
    shaderc_profile profile = shaderc_profile_none;
    if (!shaderc_parse_version_profile(flags.standard.c_str(), &version, &profile)) {
      return MakeError(v1::BAD_REQUEST,
                       absl::StrCat("unknown GLSL version in flag ",
                                    Quoted(absl::StrCat("-std=", flags.standard))));
    }
    shaderc_compile_options_set_forced_version_profile(options.get(), version, profile);
  }
  if (flags.debug_information) shaderc_compile_options_set_generate_debug_info(options.get());
  if (flags.suppress_warnings) shaderc_compile_options_set_suppress_warnings(options.get());
  if (flags.warnings_as_errors) shaderc_compile_options_set_warnings_as_errors(options.get());
  for (const auto& [name, value] : program.defines) {
    shaderc_compile_options_add_macro_definition(options.get(), name.data(), name.size(),
                                                 value ? value->data() : nullptr,
                                                 value ? value->size() : 0);
  }
  Includes includes(program.headers);
  shaderc_compile_options_set_include_callbacks(options.get(), Includes::Resolve, Includes::Release,
                                                &includes);

  const std::unique_ptr<shaderc_compilation_result, decltype(&shaderc_result_release)> result(
      shaderc_compile_into_spv(compiler.get(), program.source.data(), program.source.size(),
                               shaderc_compute_shader, "source.comp", "main", options.get()),
      shaderc_result_release);
  if (result == nullptr) return MakeError(v1::INTERNAL, "shaderc answered nothing");
  std::string log = ToValidUtf8(shaderc_result_get_error_message(result.get()));
  if (shaderc_result_get_compilation_status(result.get()) != shaderc_compilation_status_success) {
    return MakeError(v1::COMPILE_FAILED, log.empty() ? "shaderc failed without a log" : log);
  }
  return GlslResult{
      {shaderc_result_get_bytes(result.get()), shaderc_result_get_length(result.get())},
      std::move(log)};
}

}  // namespace kcache::backend::vulkan
