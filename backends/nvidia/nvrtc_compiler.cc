#include "backends/nvidia/nvrtc_compiler.h"

#include <algorithm>
#include <chrono>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/cudalike/compile_flags.h"
#include "backends/cudalike/relative_includes.h"
#include "backends/cudalike/rtc_program.h"
#include "backends/nvidia/cubin.h"
#include "backends/nvidia/ptx.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::nvidia {
namespace {

using cudalike::RtcResultFiles;

constexpr std::string_view kArchitecturePrefix = "sm_";

void SetKernels(const std::vector<v1::KernelInfo>& kernels,
                const std::vector<std::pair<std::string, std::string>>& lowered_names,
                v1::Artifact* artifact) {
  for (v1::KernelInfo& kernel : cudalike::NameKernels(kernels, lowered_names)) {
    *artifact->add_kernels() = std::move(kernel);
  }
}

void AddHeader(const std::string& name, const std::string& content, v1::CompileRequest* request) {
  for (const v1::HeaderFile& header : request->headers()) {
    if (header.name() == name) return;
  }
  v1::HeaderFile* added = request->add_headers();
  added->set_name(name);
  added->set_content(content);
}

absl::Status CheckSize(const std::string& binary, const v1::CompileRequest& request) {
  if (request.max_output_bytes() == 0 || binary.size() <= request.max_output_bytes()) {
    return absl::OkStatus();
  }
  return MakeError(v1::LIMIT_EXCEEDED,
                   absl::StrCat("the binary has ", binary.size(), " bytes, max_output_bytes is ",
                                request.max_output_bytes()),
                   {{"limit", "max_output_bytes"}});
}

// What is compiled already has no use for what only C++ has; ignoring it would hide a mistake.
absl::Status CheckOnlyBinary(const v1::CompileRequest& request, bool takes_flags) {
  const v1::ProgramManifest& manifest = request.manifest();
  const char* extra = request.headers_size() > 0                  ? "headers"
                      : manifest.defines_size() > 0               ? "defines"
                      : manifest.name_expressions_size() > 0      ? "name expressions"
                      : manifest.flags_size() > 0 && !takes_flags ? "flags"
                                                                  : nullptr;
  if (extra == nullptr) return absl::OkStatus();
  return MakeError(v1::BAD_REQUEST, absl::StrCat("a program in the language ",
                                                 Quoted(manifest.language()), " takes no ", extra));
}

}  // namespace

std::optional<uint32_t> ComputeCapabilityOf(const std::string& architecture) {
  std::string_view digits = architecture;
  if (!digits.starts_with(kArchitecturePrefix)) return std::nullopt;
  digits.remove_prefix(kArchitecturePrefix.size());
  if (digits.ends_with('a') || digits.ends_with('f')) digits.remove_suffix(1);
  uint32_t capability = 0;
  if (!absl::SimpleAtoi(AbslView(digits), &capability) || capability < 10) return std::nullopt;
  return capability;
}

NvrtcCompiler::NvrtcCompiler(absl::StatusOr<Toolkit> toolkit, NvrtcDialect dialect)
    : toolkit_(std::move(toolkit)), dialect_(std::move(dialect)) {
  if (toolkit_.ok()) architectures_ = toolkit_->Architectures();
}

absl::StatusOr<v1::Artifact> NvrtcCompiler::Compile(const v1::CompileRequest& request) {
  const bool to_ptx = request.framework().ends_with("/PTX");
  const std::string& language = request.manifest().language();
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<v1::Artifact> artifact;
  if (language == dialect_.language) {
    artifact = CompileSource(request, to_ptx);
  } else if (language == "ptx") {
    artifact = TakePtx(request, to_ptx);
  } else if (language == "binary") {
    artifact = TakeCubin(request, to_ptx);
  } else {
    artifact = MakeError(v1::UNSUPPORTED_LANGUAGE,
                         absl::StrCat("language ", Quoted(language), " is not compiled here; ",
                                      dialect_.language, ", ptx and binary are"));
  }
  if (!artifact.ok()) return artifact;
  artifact->set_architecture(request.architecture());
  const auto elapsed = std::chrono::steady_clock::now() - start;
  artifact->set_compile_ms(static_cast<uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(elapsed).count()));
  return artifact;
}

absl::StatusOr<v1::Artifact> NvrtcCompiler::CompileSource(const v1::CompileRequest& request,
                                                          bool to_ptx) {
  if (!toolkit_.ok()) return toolkit_.status();
  const std::string& architecture = request.architecture();
  if (std::find(architectures_.begin(), architectures_.end(), architecture) ==
      architectures_.end()) {
    return MakeError(
        v1::UNSUPPORTED_ARCHITECTURE,
        absl::StrCat(toolkit_->version(), " does not compile for ", Quoted(architecture),
                     "; it does for ", absl::StrJoin(architectures_, " ")));
  }
  absl::StatusOr<std::vector<std::string>> own =
      cudalike::CompileOptions(request.manifest(), toolkit_->include_directories);
  if (!own.ok()) return own.status();
  std::vector<std::string> options;
  options.push_back(absl::StrCat("--gpu-architecture=", to_ptx ? "compute_" : "sm_",
                                 architecture.substr(kArchitecturePrefix.size())));
  // Without it the working directory would be searched for quoted includes.
  options.emplace_back("--no-source-include");
  options.insert(options.end(), dialect_.options.begin(), dialect_.options.end());
  options.insert(options.end(), own->begin(), own->end());
  for (const std::string& directory : toolkit_->include_directories) {
    options.push_back(absl::StrCat("--include-path=", directory));
  }
  v1::CompileRequest complete = request;
  for (const auto& [name, content] : dialect_.headers) AddHeader(name, content, &complete);
  absl::Status includes = cudalike::CheckIncludes(
      complete.source(), {complete.headers().begin(), complete.headers().end()},
      toolkit_->include_directories);
  if (!includes.ok()) return includes;
  absl::StatusOr<RtcResultFiles> files = cudalike::CompileRtcProgram(
      toolkit_->nvrtc.common, to_ptx ? toolkit_->nvrtc.ptx : toolkit_->nvrtc.cubin, complete,
      dialect_.source_name, options);
  if (!files.ok()) return files.status();

  v1::Artifact artifact;
  if (to_ptx) {
    absl::StatusOr<Ptx> ptx = ReadPtx(files->binary);
    if (!ptx.ok()) return Annotate(ptx.status(), "while reading the compiler's PTX");
    SetKernels(ptx->kernels, files->lowered_names, &artifact);
  } else {
    absl::StatusOr<Cubin> cubin = ReadCubin(files->binary);
    if (!cubin.ok()) return Annotate(cubin.status(), "while reading the compiler's cubin");
    SetKernels(cubin->kernels, files->lowered_names, &artifact);
  }
  artifact.set_format(to_ptx ? "ptx" : "cubin");
  artifact.set_binary(std::move(files->binary));
  artifact.set_build_log(std::move(files->log));
  return artifact;
}

absl::StatusOr<v1::Artifact> NvrtcCompiler::TakePtx(const v1::CompileRequest& request,
                                                    bool to_ptx) {
  absl::StatusOr<Ptx> ptx = ReadPtx(request.source());
  if (!ptx.ok()) return MakeError(v1::COMPILE_FAILED, StdView(ptx.status().message()));
  const std::optional<uint32_t> target = ComputeCapabilityOf(ptx->target);
  const std::optional<uint32_t> device = ComputeCapabilityOf(request.architecture());
  const bool exact = ptx->target.ends_with('a');
  const bool runs = target && device && (exact ? *target == *device : *target <= *device);
  if (!runs) {
    return MakeError(v1::UNSUPPORTED_ARCHITECTURE,
                     absl::StrCat("PTX for ", ptx->target, " cannot be compiled for ",
                                  Quoted(request.architecture())));
  }
  const bool can_link = !to_ptx && toolkit_.ok() && toolkit_->ptx_linker;
  if (absl::Status status = CheckOnlyBinary(request, can_link); !status.ok()) return status;
  v1::Artifact artifact;
  if (can_link) {
    absl::StatusOr<std::vector<std::string>> flags =
        cudalike::CompileOptions(request.manifest(), {});
    if (!flags.ok()) return flags.status();
    absl::StatusOr<PtxLinker::Output> linked =
        toolkit_->ptx_linker->Link(request.source(), request.architecture(), *flags);
    if (!linked.ok()) return linked.status();
    absl::StatusOr<Cubin> cubin = ReadCubin(linked->cubin);
    if (!cubin.ok()) return Annotate(cubin.status(), "while reading nvJitLink's cubin");
    SetKernels(cubin->kernels, {}, &artifact);
    artifact.set_format("cubin");
    artifact.set_binary(std::move(linked->cubin));
    artifact.set_build_log(cudalike::LimitLog(std::move(linked->log), request.max_log_bytes()));
  } else {
    SetKernels(ptx->kernels, {}, &artifact);
    artifact.set_format("ptx");
    artifact.set_binary(request.source());
    artifact.set_build_log("PTX: compiled by the driver when it is loaded\n");
  }
  if (absl::Status status = CheckSize(artifact.binary(), request); !status.ok()) return status;
  return artifact;
}

absl::StatusOr<v1::Artifact> NvrtcCompiler::TakeCubin(const v1::CompileRequest& request,
                                                      bool to_ptx) {
  if (to_ptx) {
    return MakeError(v1::UNSUPPORTED_LANGUAGE,
                     absl::StrCat("a device binary has no PTX; use ",
                                  request.framework().substr(0, request.framework().find('/'))));
  }
  if (absl::Status status = CheckOnlyBinary(request, false); !status.ok()) return status;
  if (absl::Status status = CheckSize(request.source(), request); !status.ok()) return status;
  absl::StatusOr<Cubin> cubin = ReadCubin(request.source());
  if (!cubin.ok()) return MakeError(v1::COMPILE_FAILED, StdView(cubin.status().message()));
  const std::optional<uint32_t> device = ComputeCapabilityOf(request.architecture());
  // Machine code runs on later minor versions of its major version.
  const bool runs = device && cubin->compute_capability / 10 == *device / 10 &&
                    cubin->compute_capability <= *device;
  if (!runs) {
    return MakeError(v1::UNSUPPORTED_ARCHITECTURE,
                     absl::StrCat("a cubin for sm_", cubin->compute_capability, " does not run on ",
                                  Quoted(request.architecture())));
  }
  v1::Artifact artifact;
  SetKernels(cubin->kernels, {}, &artifact);
  artifact.set_format("cubin");
  artifact.set_binary(request.source());
  return artifact;
}

}  // namespace kcache::backend::nvidia
