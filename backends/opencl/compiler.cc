#include "backends/opencl/compiler.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "backends/opencl/build_input.h"
#include "backends/opencl/child_compile.h"
#include "backends/opencl/cl_info.h"
#include "backends/opencl/cl_status.h"
#include "backends/opencl/device_description.h"
#include "backends/opencl/include_check.h"
#include "backends/opencl/pocl_finisher.h"
#include "backends/opencl/program_build.h"
#include "backends/opencl/reflection.h"
#include "backends/opencl/value_sizes.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::opencl {
namespace {

namespace fs = std::filesystem;

// What a kernel is finished for when nobody says how it will be launched.
v1::Dim3 DefaultLocalSize() {
  v1::Dim3 local;
  local.set_x(64);
  local.set_y(1);
  local.set_z(1);
  return local;
}

bool IsSet(const v1::Dim3& size) { return size.x() != 0 && size.y() != 0 && size.z() != 0; }

// Dimensions that a caller leaves out count 1.
v1::Dim3 Filled(v1::Dim3 size) {
  if (size.x() == 0 && size.y() == 0 && size.z() == 0) return size;
  size.set_x(std::max(size.x(), 1U));
  size.set_y(std::max(size.y(), 1U));
  size.set_z(std::max(size.z(), 1U));
  return size;
}

bool Same(const v1::Dim3& a, const v1::Dim3& b) {
  return a.x() == b.x() && a.y() == b.y() && a.z() == b.z();
}

std::string ToText(const v1::Dim3& size) {
  return std::to_string(size.x()) + "x" + std::to_string(size.y()) + "x" + std::to_string(size.z());
}

// Compilers resolve the header directory against the working directory; see kHeaderDirectory.
class ScopedWorkingDirectory {
 public:
  explicit ScopedWorkingDirectory(const fs::path& path) : before_(fs::current_path(ignored_)) {
    fs::current_path(path);
  }
  ~ScopedWorkingDirectory() { fs::current_path(before_, ignored_); }
  ScopedWorkingDirectory(const ScopedWorkingDirectory&) = delete;
  ScopedWorkingDirectory& operator=(const ScopedWorkingDirectory&) = delete;

 private:
  std::error_code ignored_;
  fs::path before_;
};

// Replaces the headers of the compile before.
absl::Status WriteHeaders(const v1::CompileRequest& request, const fs::path& directory) {
  std::error_code error;
  const fs::path root = directory / kHeaderDirectory;
  fs::remove_all(root, error);
  fs::create_directories(root, error);
  for (const v1::HeaderFile& header : request.headers()) {
    if (absl::Status status = ValidateHeaderName(header.name()); !status.ok()) return status;
    const fs::path file = root / header.name();
    fs::create_directories(file.parent_path(), error);
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(header.content().data(), static_cast<std::streamsize>(header.content().size()));
    out.close();
    if (!out) return MakeError(v1::INTERNAL, "cannot write header " + Quoted(header.name()));
  }
  return absl::OkStatus();
}

absl::StatusOr<ProgramForm> FormOf(const std::string& language, const CatalogDevice& device) {
  if (language == "opencl-c") return ProgramForm::kSource;
  if (language == "binary") return ProgramForm::kBinary;
  if (language == "spirv" && TakesSpirv(device)) return ProgramForm::kSpirv;
  return MakeError(v1::UNSUPPORTED_LANGUAGE,
                   "language " + Quoted(language) + "; this device takes opencl-c, " +
                       (TakesSpirv(device) ? "spirv, " : "") + "binary",
                   {{"language", language}});
}

const v1::KernelInfo* FindKernel(const std::vector<v1::KernelInfo>& kernels,
                                 const std::string& entry) {
  const auto found = std::find_if(kernels.begin(), kernels.end(), [&](const v1::KernelInfo& info) {
    return info.entry() == entry;
  });
  return found == kernels.end() ? nullptr : &*found;
}

absl::Status CheckShape(const v1::LaunchShape& shape, const std::vector<v1::KernelInfo>& kernels,
                        const v1::DeviceLimits& limits) {
  if (!shape.entry().empty() && FindKernel(kernels, shape.entry()) == nullptr) {
    std::string names;
    for (const v1::KernelInfo& info : kernels) names += (names.empty() ? "" : ", ") + info.entry();
    return MakeError(v1::UNKNOWN_ENTRY, "launch shape for " + Quoted(shape.entry()) +
                                            "; the program has " +
                                            (names.empty() ? "no kernel" : names));
  }
  const v1::Dim3 local = Filled(shape.local_size());
  const uint64_t items = uint64_t{local.x()} * local.y() * local.z();
  if (!IsSet(local) || items > limits.max_local_size()) {
    return MakeError(v1::INVALID_LAUNCH,
                     "launch shape " + ToText(local) +
                         ": every dimension is at least 1 and the product at most " +
                         std::to_string(limits.max_local_size()));
  }
  return absl::OkStatus();
}

// The local sizes to finish a program for. PoCL finishes all kernels of a program for each of them,
// so this is one list for the program.
absl::StatusOr<std::vector<v1::Dim3>> SizesToFinish(const v1::ProgramManifest& manifest,
                                                    cl_program program,
                                                    const std::vector<v1::KernelInfo>& kernels,
                                                    const v1::DeviceLimits& limits) {
  std::vector<v1::Dim3> sizes;
  const auto add = [&](const v1::Dim3& size) {
    const bool known = std::any_of(sizes.begin(), sizes.end(),
                                   [&](const v1::Dim3& other) { return Same(size, other); });
    if (IsSet(size) && !known) sizes.push_back(size);
  };
  bool any_free = false;  // a kernel that takes more than one local size
  for (const v1::KernelInfo& info : kernels) {
    add(info.required_local_size());
    if (IsSet(info.required_local_size())) continue;
    any_free = true;
    cl_int error = CL_SUCCESS;
    const ClKernel kernel(clCreateKernel(program, info.entry().c_str(), &error));
    if (error == CL_SUCCESS) add(LocalSizeHint(kernel.get()));
  }
  for (const v1::LaunchShape& shape : manifest.launch_shapes()) {
    if (absl::Status status = CheckShape(shape, kernels, limits); !status.ok()) return status;
    add(Filled(shape.local_size()));
  }
  if (any_free && manifest.launch_shapes().empty()) add(DefaultLocalSize());
  return sizes;
}

// Internal to this folder: travels in no reply.
constexpr char kOtherSizes[] = "this process finishes programs for other local sizes";

absl::Status OtherSizes() { return absl::AbortedError(kOtherSizes); }

void RecordFinished(const std::vector<v1::Dim3>& sizes, std::vector<v1::KernelInfo>* kernels) {
  for (v1::KernelInfo& kernel : *kernels) {
    if (IsSet(kernel.required_local_size())) {
      *kernel.add_finished_local_sizes() = kernel.required_local_size();
    } else {
      kernel.mutable_finished_local_sizes()->Assign(sizes.begin(), sizes.end());
    }
  }
}

}  // namespace

bool IsOtherSizes(const absl::Status& status) {
  return absl::IsAborted(status) && status.message() == kOtherSizes;
}

absl::StatusOr<std::unique_ptr<OpenClCompiler>> OpenClCompiler::Make() {
  absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make("kcache-opencl-");
  if (!directory.ok()) return directory.status();
  return std::unique_ptr<OpenClCompiler>(new OpenClCompiler(*std::move(directory)));
}

absl::StatusOr<cl_context> OpenClCompiler::ContextOf(const CatalogDevice& device) {
  ClContext& context = contexts_[device.device];
  if (!context) {
    cl_int error = CL_SUCCESS;
    context = ClContext(clCreateContext(nullptr, 1, &device.device, nullptr, nullptr, &error));
    if (error != CL_SUCCESS) return FromCl(error, "clCreateContext");
  }
  return context.get();
}

absl::StatusOr<v1::Artifact> OpenClCompiler::Compile(const v1::CompileRequest& request) {
  absl::StatusOr<CatalogDevice> device = FindDevice(request.device_index());
  if (!device.ok()) return device.status();
  if (IsPocl(device->platform)) return children_.Compile(request);
  return CompileHere(*device, request, {});
}

absl::StatusOr<v1::Artifact> OpenClCompiler::CompileHere(const CatalogDevice& device,
                                                         const v1::CompileRequest& request,
                                                         const fs::path& pocl_cache) {
  const auto start = std::chrono::steady_clock::now();
  const v1::ProgramManifest& manifest = request.manifest();
  const v1::DeviceInfo info = DescribeDevice(device, request.device_index());
  if (!request.architecture().empty() && request.architecture() != info.architecture()) {
    return MakeError(v1::UNSUPPORTED_ARCHITECTURE,
                     "architecture " + Quoted(request.architecture()) + "; device OpenCL:" +
                         std::to_string(request.device_index()) + " is " + info.architecture());
  }
  absl::StatusOr<ProgramForm> form = FormOf(manifest.language(), device);
  if (!form.ok()) return form.status();
  absl::StatusOr<std::string> options = BuildOptions(manifest);
  if (!options.ok()) return options.status();
  options->append(HeaderOption(request));
  absl::StatusOr<std::string> text = SourcePrelude(manifest);
  if (!text.ok()) return text.status();
  if (*form != ProgramForm::kSource) text->clear();  // defines mean nothing to compiled code
  text->append(request.source());
  if (absl::Status status = CheckIncludes(request); !status.ok()) return status;
  if (absl::Status status = WriteHeaders(request, directory_.path()); !status.ok()) return status;
  absl::StatusOr<cl_context> context = ContextOf(device);
  if (!context.ok()) return context.status();

  const ScopedWorkingDirectory inside(directory_.path());
  absl::StatusOr<BuiltProgram> built =
      BuildProgram(*context, device, *form, *text, *options, request.max_log_bytes());
  if (!built.ok()) return built.status();
  const auto rebuild_with = [&](const std::string& suffix) -> absl::StatusOr<ClProgram> {
    absl::StatusOr<BuiltProgram> again =
        BuildProgram(*context, device, *form, *text + suffix, *options, request.max_log_bytes());
    if (!again.ok()) return again.status();
    return std::move(again->program);
  };
  absl::StatusOr<std::vector<v1::KernelInfo>> kernels =
      ReflectProgram(built->program.get(), device.device);
  if (!kernels.ok()) return kernels.status();
  if (*form == ProgramForm::kSource) FindValueSizes(rebuild_with, device.device, &*kernels);

  // Other drivers finish in clBuildProgram, for every local size.
  if (IsPocl(device.platform) && *form != ProgramForm::kBinary) {
    absl::StatusOr<std::vector<v1::Dim3>> sizes =
        SizesToFinish(manifest, built->program.get(), *kernels, info.limits());
    if (!sizes.ok()) return sizes.status();
    const std::string names = PoclSpecializations(*sizes);
    if (settled_on_.value_or(names) != names) return OtherSizes();
    settled_on_ = names;
    absl::StatusOr<ClProgram> finished = FinishPoclProgram(
        std::move(built->program), names, pocl_cache, [&] { return rebuild_with(""); });
    if (!finished.ok()) return finished.status();
    built->program = *std::move(finished);
    RecordFinished(*sizes, &*kernels);
  }

  v1::Artifact artifact;
  artifact.set_format(IsPocl(device.platform) ? "pocl-binary" : "cl-binary");
  artifact.set_architecture(info.architecture());
  if (*form == ProgramForm::kBinary) {
    artifact.set_binary(request.source());
  } else {
    absl::StatusOr<std::string> binary = ExportBinary(built->program.get());
    if (!binary.ok()) return binary.status();
    artifact.set_binary(*std::move(binary));
  }
  if (request.max_output_bytes() > 0 && artifact.binary().size() > request.max_output_bytes()) {
    return MakeError(v1::LIMIT_EXCEEDED,
                     "the binary has " + std::to_string(artifact.binary().size()) +
                         " bytes, max_output_bytes is " +
                         std::to_string(request.max_output_bytes()),
                     {{"limit", "max_output_bytes"}});
  }
  if (const std::string load_options = LoadOptions(manifest); !load_options.empty()) {
    (*artifact.mutable_extra())[kLoadOptionsKey] = load_options;
  }
  artifact.set_build_log(ToValidUtf8(built->log));
  artifact.mutable_kernels()->Assign(kernels->begin(), kernels->end());
  artifact.set_compile_ms(
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                std::chrono::steady_clock::now() - start)
                                .count()));
  return artifact;
}

}  // namespace kcache::backend::opencl
