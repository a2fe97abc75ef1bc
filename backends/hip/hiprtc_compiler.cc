#include "backends/hip/hiprtc_compiler.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <chrono>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cudalike/compile_flags.h"
#include "backends/cudalike/library_identity.h"
#include "backends/cudalike/relative_includes.h"
#include "backends/cudalike/rtc_program.h"
#include "backends/hip/code_object.h"
#include "contract/digest.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::hip {
namespace {

constexpr char kSourceName[] = "kcache.hip";
constexpr char kRuntimeLibrary[] = "libamdhip64.so.5";
constexpr char kCompilerLibrary[] = "libhiprtc.so.5";
// What hipRTC compiles with: comgr is the compiler, the builtins are headers.
constexpr std::array<const char*, 2> kHelperLibraries = {"libamd_comgr.so.2",
                                                         "libhiprtc-builtins.so.5"};

std::string IdentityOf(void* library) {
  link_map* map = nullptr;
  if (library == nullptr || dlinfo(library, RTLD_DI_LINKMAP, &map) != 0) return "";
  return cudalike::LibraryIdentity(map->l_name);
}

template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

bool ResolveAll(void* library, Hiprtc* hiprtc) {
  cudalike::RtcApi& api = hiprtc->api;
  return Resolve(library, "hiprtcGetErrorString", &api.get_error_string) &&
         Resolve(library, "hiprtcVersion", &api.version) &&
         Resolve(library, "hiprtcCreateProgram", &api.create_program) &&
         Resolve(library, "hiprtcDestroyProgram", &api.destroy_program) &&
         Resolve(library, "hiprtcCompileProgram", &api.compile_program) &&
         Resolve(library, "hiprtcGetProgramLogSize", &api.get_log_size) &&
         Resolve(library, "hiprtcGetProgramLog", &api.get_log) &&
         Resolve(library, "hiprtcAddNameExpression", &api.add_name_expression) &&
         Resolve(library, "hiprtcGetLoweredName", &api.get_lowered_name) &&
         Resolve(library, "hiprtcGetCodeSize", &hiprtc->code.size) &&
         Resolve(library, "hiprtcGetCode", &hiprtc->code.get);
}

std::string ArchitectureOption(const std::string& architecture) {
  return absl::StrCat("--gpu-architecture=", architecture);
}

// "gfx90a" or "gfx90a:sramecc+:xnack-": what may be put on a command line.
bool LooksLikeArchitecture(std::string_view architecture) {
  if (!architecture.starts_with("gfx") || architecture.size() > 64) return false;
  return std::all_of(architecture.begin(), architecture.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == ':' || c == '+' || c == '-';
  });
}

}  // namespace

absl::StatusOr<Hiprtc> LoadHiprtc() {
  void* library = dlopen(kCompilerLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) library = dlopen(kRuntimeLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return MakeError(v1::BACKEND_UNAVAILABLE,
                     absl::StrCat(kCompilerLibrary, " and ", kRuntimeLibrary, " not found"));
  }
  Hiprtc hiprtc;
  if (!ResolveAll(library, &hiprtc)) {
    return MakeError(v1::BACKEND_UNAVAILABLE,
                     absl::StrCat(kRuntimeLibrary, " lacks functions of hipRTC"));
  }
  int major = 0;
  int minor = 0;
  (void)hiprtc.api.version(&major, &minor);
  hiprtc.version = absl::StrCat("hipRTC ", major, ".", minor);
  FieldHasher hasher("kcache-hiprtc-1");
  hasher.Field(hiprtc.version).Field(IdentityOf(library));
  for (const char* helper : kHelperLibraries) {
    hasher.Field(IdentityOf(dlopen(helper, RTLD_NOW | RTLD_LOCAL)));
  }
  hiprtc.fingerprint = hasher.Finish().str();
  return hiprtc;
}

HiprtcCompiler::HiprtcCompiler(absl::StatusOr<Hiprtc> hiprtc, ArchitectureTrial trial)
    : hiprtc_(std::move(hiprtc)), trial_(std::move(trial)) {}

absl::StatusOr<v1::Artifact> HiprtcCompiler::Compile(const v1::CompileRequest& request) {
  const std::string& language = request.manifest().language();
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<v1::Artifact> artifact;
  if (language == "hip-c++") {
    artifact = CompileSource(request);
  } else if (language == "binary") {
    artifact = TakeCodeObject(request);
  } else {
    artifact = MakeError(v1::UNSUPPORTED_LANGUAGE,
                         absl::StrCat("language ", Quoted(language),
                                      " is not compiled for AMD; hip-c++ and binary are"));
  }
  if (!artifact.ok()) return artifact;
  artifact->set_format("code-object");
  artifact->set_architecture(request.architecture());
  artifact->set_compile_ms(
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                std::chrono::steady_clock::now() - start)
                                .count()));
  return artifact;
}

absl::Status HiprtcCompiler::CheckArchitecture(const std::string& architecture) {
  if (!LooksLikeArchitecture(architecture)) {
    return MakeError(v1::UNSUPPORTED_ARCHITECTURE,
                     absl::StrCat(Quoted(architecture), " is not an AMD architecture"));
  }
  const auto known = tried_.find(architecture);
  if (known != tried_.end()) return known->second;
  absl::Status status = trial_(architecture);
  // Only an answer is kept: a trial that could not be made is made again.
  if (status.ok() || ReasonOf(status) == v1::UNSUPPORTED_ARCHITECTURE) {
    tried_.emplace(architecture, status);
  }
  return status;
}

absl::StatusOr<v1::Artifact> HiprtcCompiler::CompileSource(const v1::CompileRequest& request) {
  if (!hiprtc_.ok()) return hiprtc_.status();
  absl::StatusOr<std::vector<std::string>> options =
      cudalike::CompileOptions(request.manifest(), {});
  if (!options.ok()) return options.status();
  absl::Status includes = cudalike::CheckIncludes(
      request.source(), {request.headers().begin(), request.headers().end()}, {});
  if (!includes.ok()) return includes;
  if (absl::Status status = CheckArchitecture(request.architecture()); !status.ok()) return status;
  options->insert(options->begin(), ArchitectureOption(request.architecture()));
  absl::StatusOr<cudalike::RtcResultFiles> files =
      cudalike::CompileRtcProgram(hiprtc_->api, hiprtc_->code, request, kSourceName, *options);
  if (!files.ok()) return files.status();
  absl::StatusOr<CodeObject> object = ReadCodeObject(files->binary);
  if (!object.ok()) return Annotate(object.status(), "while reading the compiler's code object");
  if (ProcessorOf(object->target) != ProcessorOf(request.architecture())) {
    return MakeError(v1::INTERNAL, absl::StrCat("compiled for ", request.architecture(),
                                                ", the code object is for ", object->target));
  }
  v1::Artifact artifact;
  for (v1::KernelInfo& kernel : cudalike::NameKernels(object->kernels, files->lowered_names)) {
    *artifact.add_kernels() = std::move(kernel);
  }
  artifact.set_binary(std::move(files->binary));
  artifact.set_build_log(std::move(files->log));
  return artifact;
}

absl::StatusOr<v1::Artifact> HiprtcCompiler::TakeCodeObject(const v1::CompileRequest& request) {
  absl::StatusOr<CodeObject> object = ReadCodeObject(request.source());
  if (!object.ok()) return MakeError(v1::COMPILE_FAILED, StdView(object.status().message()));
  if (ProcessorOf(object->target) != ProcessorOf(request.architecture())) {
    return MakeError(v1::UNSUPPORTED_ARCHITECTURE,
                     absl::StrCat("a code object for ", object->target, " does not run on ",
                                  Quoted(request.architecture())));
  }
  v1::Artifact artifact;
  for (v1::KernelInfo& kernel : cudalike::NameKernels(object->kernels, {})) {
    *artifact.add_kernels() = std::move(kernel);
  }
  artifact.set_binary(request.source());
  return artifact;
}

int CompileEmptyKernel(const std::string& architecture) {
  const absl::StatusOr<Hiprtc> hiprtc = LoadHiprtc();
  if (!hiprtc.ok()) return 1;
  v1::CompileRequest request;
  request.set_source("extern \"C\" __global__ void empty() {}\n");
  const auto files = cudalike::CompileRtcProgram(hiprtc->api, hiprtc->code, request, kSourceName,
                                                 {ArchitectureOption(architecture)});
  if (!files.ok()) return 1;
  const absl::StatusOr<CodeObject> object = ReadCodeObject(files->binary);
  return object.ok() && ProcessorOf(object->target) == ProcessorOf(architecture) ? 0 : 1;
}

}  // namespace kcache::backend::hip
