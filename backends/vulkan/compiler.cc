#include "backends/vulkan/compiler.h"

#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <spirv-tools/libspirv.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/vulkan/family.h"
#include "backends/vulkan/pipeline.h"
#include "backends/vulkan/reflection.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::vulkan {
namespace {

constexpr char kNoPipeline[] = "--no-pipeline";

// Whatever was wrong with the program is the compiler's answer about it.
absl::Status AsCompileFailure(const absl::Status& status) {
  return ReasonOf(status) == v1::BAD_REQUEST
             ? MakeError(v1::COMPILE_FAILED, StdView(status.message()))
             : status;
}

}  // namespace

absl::Status ValidateSpirv(std::string_view spirv) {
  if (spirv.empty() || spirv.size() % sizeof(uint32_t) != 0) {
    return MakeError(
        v1::COMPILE_FAILED,
        absl::StrCat("SPIR-V is a stream of 32-bit words; this has ", spirv.size(), " bytes"));
  }
  std::vector<uint32_t> words(spirv.size() / sizeof(uint32_t));
  std::memcpy(words.data(), spirv.data(), spirv.size());
  spvtools::SpirvTools tools(SPV_ENV_VULKAN_1_3);
  std::string log;
  tools.SetMessageConsumer([&log](spv_message_level_t, const char*, const spv_position_t& position,
                                  const char* message) {
    absl::StrAppend(&log, log.empty() ? "" : "\n", "word ", position.index, ": ", message);
  });
  spvtools::ValidatorOptions options;
  // What devices with the features that Device::Open enables accept.
  options.SetScalarBlockLayout(true);
  options.SetWorkgroupScalarBlockLayout(true);
  options.SetAllowLocalSizeId(true);
  if (tools.Validate(words.data(), words.size(), options)) return absl::OkStatus();
  return MakeError(v1::COMPILE_FAILED, absl::StrCat("invalid SPIR-V: ", ToValidUtf8(log)));
}

VulkanCompiler::VulkanCompiler(std::shared_ptr<Instance> instance, absl::Status unavailable)
    : instance_(std::move(instance)), unavailable_(std::move(unavailable)) {}

VulkanCompiler::~VulkanCompiler() = default;

absl::StatusOr<std::string> VulkanCompiler::ToSpirv(const v1::CompileRequest& request,
                                                    const std::vector<std::string>& flags,
                                                    std::string* log) {
  const std::string& language = request.manifest().language();
  if (!request.manifest().name_expressions().empty()) {
    return MakeError(v1::BAD_REQUEST, "name expressions are for C++; a Vulkan program has none");
  }
  if (language == "spirv" || language == "binary") {
    if (!flags.empty() || request.headers_size() > 0 || request.manifest().defines_size() > 0) {
      return MakeError(v1::BAD_REQUEST,
                       "SPIR-V takes no headers, no defines and no flag but --no-pipeline");
    }
    return request.source();
  }
  if (language != "glsl") {
    return MakeError(
        v1::UNSUPPORTED_LANGUAGE,
        absl::StrCat("language ", Quoted(language), "; Vulkan takes glsl, spirv and binary"));
  }
  GlslProgram program;
  program.source = request.source();
  for (const v1::HeaderFile& header : request.headers()) {
    program.headers.emplace(header.name(), header.content());
  }
  for (const v1::Define& define : request.manifest().defines()) {
    program.defines.emplace_back(define.name(),
                                 define.has_value() ? std::optional(define.value()) : std::nullopt);
  }
  auto options = ParseGlslFlags(flags);
  if (!options.ok()) return options.status();
  program.options = *options;
  auto compiled = CompileGlsl(program);
  if (!compiled.ok()) return compiled.status();
  *log = std::move(compiled->log);
  return std::move(compiled->spirv);
}

absl::StatusOr<v1::Artifact> VulkanCompiler::Compile(const v1::CompileRequest& request) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::string> flags;
  bool finish = request.architecture() != kPlainArchitecture;
  for (const std::string& flag : request.manifest().flags()) {
    if (flag == kNoPipeline) {
      finish = false;
    } else {
      flags.push_back(flag);
    }
  }
  std::string log;
  auto spirv = ToSpirv(request, flags, &log);
  if (!spirv.ok()) return spirv.status();
  absl::Status valid = ValidateSpirv(*spirv);
  if (!valid.ok()) return valid;
  auto module = SpirvModule::Parse(*spirv);
  if (!module.ok()) return AsCompileFailure(module.status());

  v1::Artifact artifact;
  artifact.set_format("spirv");
  artifact.set_architecture(request.architecture());
  for (const std::string& name : ComputeEntryNames(*module)) {
    auto entry = ReflectEntry(*module, name);
    if (!entry.ok()) return AsCompileFailure(entry.status());
    *artifact.add_kernels() = DescribeEntry(*entry);
    if (!entry->unsupported.empty()) {
      absl::StrAppend(&log, log.empty() ? "" : "\n", "entry point ", Quoted(name),
                      " cannot be launched: ", entry->unsupported);
    }
  }
  if (artifact.kernels_size() == 0) {
    return MakeError(v1::COMPILE_FAILED, "the module has no compute entry point (GLCompute)");
  }
  if (finish) {
    absl::Status finished = Finish(request, *std::move(module), &artifact);
    if (!finished.ok()) return AsCompileFailure(finished);
  }
  if (request.max_log_bytes() > 0) log = std::string(Utf8Prefix(log, request.max_log_bytes()));
  artifact.set_build_log(std::move(log));
  artifact.set_binary(*std::move(spirv));
  uint64_t bytes = artifact.binary().size();
  for (const auto& [name, content] : artifact.extra()) bytes += content.size();
  if (request.max_output_bytes() > 0 && bytes > request.max_output_bytes()) {
    return MakeError(
        v1::LIMIT_EXCEEDED,
        absl::StrCat("the artifact has ", bytes, " bytes, the limit max_output_bytes is ",
                     request.max_output_bytes()),
        {{"limit", "max_output_bytes"}});
  }
  artifact.set_compile_ms(
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                std::chrono::steady_clock::now() - start)
                                .count()));
  return artifact;
}

absl::StatusOr<Device*> VulkanCompiler::OpenDevice(const v1::CompileRequest& request) {
  if (instance_ == nullptr) return unavailable_;
  if (device_ != nullptr && device_->physical().architecture() == request.architecture()) {
    return device_.get();
  }
  device_.reset();
  auto physical = FindPhysicalDevice(*instance_, request.device_index(), RequestedIdentity());
  if (!physical.ok()) return physical.status();
  if (physical->architecture() != request.architecture()) {
    return MakeError(v1::UNSUPPORTED_ARCHITECTURE,
                     absl::StrCat("architecture ", Quoted(request.architecture()), "; device ",
                                  request.device_index(), " is ", physical->architecture(),
                                  ", and without a device there is ", kPlainArchitecture));
  }
  auto device = Device::Open(*std::move(physical));
  if (!device.ok()) return device.status();
  device_ = *std::move(device);
  return device_.get();
}

absl::Status VulkanCompiler::Finish(const v1::CompileRequest& request, SpirvModule module,
                                    v1::Artifact* artifact) {
  auto device = OpenDevice(request);
  if (!device.ok()) return device.status();
  auto loaded = LoadedModule::Load(*device, std::move(module), {});
  if (!loaded.ok()) return loaded.status();
  // Pipelines are made for what goes into the cache; they themselves are dropped.
  for (const v1::KernelInfo& kernel : artifact->kernels()) {
    if (!kernel.arguments_known()) continue;
    auto pipeline = (*loaded)->MakePipeline(kernel.entry(), {}, std::nullopt, nullptr);
    if (!pipeline.ok()) return pipeline.status();
  }
  for (const v1::LaunchShape& shape : request.manifest().launch_shapes()) {
    const v1::Dim3& size = shape.local_size();
    const LocalSize local = {std::max(size.x(), 1u), std::max(size.y(), 1u),
                             std::max(size.z(), 1u)};
    auto pipeline = (*loaded)->MakePipeline(shape.entry(), {}, local, nullptr);
    if (!pipeline.ok()) return pipeline.status();
  }
  auto cache = (*loaded)->CacheData();
  if (!cache.ok()) return cache.status();
  if (!cache->empty()) (*artifact->mutable_extra())["pipeline-cache"] = *std::move(cache);
  return absl::OkStatus();
}

}  // namespace kcache::backend::vulkan
