#include "backends/hip/hip_family.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/cudalike/stream_context.h"
#include "backends/hip/architecture_trial.h"
#include "backends/hip/hip_platform.h"
#include "backends/hip/hip_stream_api.h"
#include "backends/hip/hip_table.h"
#include "backends/hip/hiprtc_compiler.h"
#include "backends/nvidia/nvrtc_compiler.h"
#include "backends/nvidia/toolkit.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::hip {
namespace {

constexpr char kFamily[] = "HIP";
constexpr char kLanguage[] = "hip-c++";

// NVRTC knows what HIP code needs without a header, but not HIP's own name for it.
nvidia::NvrtcDialect NvidiaDialect() {
  nvidia::NvrtcDialect dialect;
  dialect.language = kLanguage;
  dialect.source_name = "kcache.hip";
  dialect.options = {"-D__HIP_PLATFORM_NVIDIA__=1"};
  dialect.headers = {{"hip/hip_runtime.h", "#pragma once\n"}};
  return dialect;
}

// What compiles for a platform, as the report says it.
struct CompilerIdentity {
  absl::Status status;
  std::string version;
  std::string fingerprint;
  std::vector<std::string> architectures;  // empty: hipRTC does not list them
  std::vector<std::string> readable_paths;
};

CompilerIdentity NvidiaCompiler() {
  CompilerIdentity identity;
  const absl::StatusOr<nvidia::Toolkit> toolkit = nvidia::FindToolkit();
  identity.status = toolkit.status();
  if (!toolkit.ok()) return identity;
  identity.version = toolkit->version();
  identity.fingerprint = toolkit->Fingerprint();
  identity.architectures = toolkit->Architectures();
  identity.readable_paths = toolkit->ReadablePaths();
  return identity;
}

CompilerIdentity AmdCompiler() {
  CompilerIdentity identity;
  const absl::StatusOr<Hiprtc> hiprtc = LoadHiprtc();
  identity.status = hiprtc.status();
  if (!hiprtc.ok()) return identity;
  identity.version = hiprtc->version;
  identity.fingerprint = hiprtc->fingerprint;
  return identity;
}

// Compiles for whichever platform the architecture belongs to.
class HipCompiler : public Compiler {
 public:
  explicit HipCompiler(std::string program)
      : amd_(LoadHiprtc(),
             [program = std::move(program)](const std::string& architecture) {
               return TryArchitecture(program, architecture);
             }),
        nvidia_(nvidia::FindToolkit(), NvidiaDialect()) {}

  absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request) override {
    if (nvidia::ComputeCapabilityOf(request.architecture())) return nvidia_.Compile(request);
    return amd_.Compile(request);
  }

 private:
  HiprtcCompiler amd_;
  nvidia::NvrtcCompiler nvidia_;
};

class HipFamily : public Family {
 public:
  explicit HipFamily(std::string program) : program_(std::move(program)) {}

  std::string_view name() const override { return kFamily; }

  v1::ProbeReport Probe() override {
    v1::ProbeReport report;
    report.set_family(kFamily);
    absl::StatusOr<Platform> platform = OpenPlatform(kFamily);
    const bool is_nvidia = platform.ok() && platform->is_nvidia;
    const CompilerIdentity compiler = is_nvidia ? NvidiaCompiler() : AmdCompiler();
    v1::CompileCapability* capability = report.add_compilers();
    capability->set_framework(kFamily);
    for (const std::string& language : Languages(is_nvidia)) capability->add_languages(language);
    for (const std::string& name : compiler.architectures) capability->add_architectures(name);
    capability->set_compiler_version(compiler.version);
    capability->set_compiler_fingerprint(compiler.fingerprint);
    capability->set_unavailable(std::string(compiler.status.message()));
    v1::CompileProfile* profile = report.mutable_compile_profile();
    profile->set_executes_programs(true);  // itself, to try an architecture
    for (const std::string& path : compiler.readable_paths) profile->add_readable_paths(path);
    if (!platform.ok()) {
      report.set_reason(std::string(platform.status().message()));
      return report;
    }
    report.set_available(true);
    for (v1::DeviceInfo& device : platform->devices) {
      for (const std::string& language : Languages(is_nvidia)) device.add_languages(language);
      device.set_compiler_version(compiler.version);
      device.set_compiler_fingerprint(compiler.fingerprint);
      *report.add_devices() = std::move(device);
    }
    return report;
  }

  absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler() override {
    return std::make_unique<HipCompiler>(program_);
  }

  absl::StatusOr<std::unique_ptr<Context>> OpenContext(const ContextOptions& options) override {
    if (!options.variant.empty()) {
      return MakeError(v1::UNKNOWN_DEVICE,
                       absl::StrCat("HIP has no variant ", Quoted(options.variant)));
    }
    absl::StatusOr<Platform> platform = OpenPlatform(kFamily);
    if (!platform.ok()) return platform.status();
    const auto ordinal = static_cast<size_t>(HipOrdinalOf(*platform, options.index));
    if (ordinal >= platform->devices.size()) {
      return MakeError(v1::UNKNOWN_DEVICE,
                       absl::StrCat("no HIP device ", options.index, "; the runtime lists ",
                                    platform->devices.size()));
    }
    absl::StatusOr<std::unique_ptr<cudalike::StreamApi>> api =
        HipStreamApi::Open(*platform->hip, static_cast<int>(ordinal));
    if (!api.ok()) return api.status();
    v1::DeviceInfo info = platform->devices[ordinal];
    // A confined process counts from 0; the index is the one that was asked for.
    info.mutable_device()->set_index(options.index);
    for (const std::string& language : Languages(platform->is_nvidia)) info.add_languages(language);
    return std::make_unique<cudalike::StreamContext>(*std::move(api), std::move(info));
  }

 private:
  static std::vector<std::string> Languages(bool is_nvidia) {
    if (is_nvidia) return {kLanguage, "ptx", "binary"};
    return {kLanguage, "binary"};
  }

  const std::string program_;
};

}  // namespace

std::unique_ptr<Family> MakeHipFamily(std::string program) {
  return std::make_unique<HipFamily>(std::move(program));
}

}  // namespace kcache::backend::hip
