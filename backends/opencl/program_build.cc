#include "backends/opencl/program_build.h"

#include <vector>

#include "backends/opencl/cl_info.h"
#include "backends/opencl/cl_status.h"
#include "contract/error_reason.h"

namespace kcache::backend::opencl {
namespace {

std::string BuildLog(cl_program program, cl_device_id device, size_t max_bytes) {
  std::string log = InfoText([&](size_t size, void* value, size_t* returned) {
    return clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, value, returned);
  });
  if (max_bytes > 0 && log.size() > max_bytes) {
    const std::string mark = "\n[cut: the log has " + std::to_string(log.size()) + " bytes]\n";
    log.resize(max_bytes > mark.size() ? max_bytes - mark.size() : 0);
    log += mark;
    log.resize(std::min(log.size(), max_bytes));
  }
  return log;
}

absl::StatusOr<ClProgram> CreateFromSpirv(cl_context context, const CatalogDevice& device,
                                          std::string_view text) {
  // Through the platform: a 1.2 loader or driver does not export the 2.1 entry point.
  using CreateWithIl = cl_program(CL_API_CALL*)(cl_context, const void*, size_t, cl_int*);
  auto* create = reinterpret_cast<CreateWithIl>(
      clGetExtensionFunctionAddressForPlatform(device.platform, "clCreateProgramWithILKHR"));
  if (create == nullptr) create = &clCreateProgramWithIL;
  cl_int error = CL_SUCCESS;
  ClProgram program(create(context, text.data(), text.size(), &error));
  if (error == CL_INVALID_VALUE) {
    return MakeError(v1::COMPILE_FAILED,
                     "the driver does not take this as SPIR-V: CL_INVALID_VALUE");
  }
  if (error != CL_SUCCESS) return FromCl(error, "clCreateProgramWithIL");
  return program;
}

absl::StatusOr<ClProgram> Create(cl_context context, const CatalogDevice& device, ProgramForm form,
                                 std::string_view text) {
  cl_int error = CL_SUCCESS;
  const char* data = text.data();
  const size_t bytes = text.size();
  switch (form) {
    case ProgramForm::kSource: {
      ClProgram program(clCreateProgramWithSource(context, 1, &data, &bytes, &error));
      if (error != CL_SUCCESS) return FromCl(error, "clCreateProgramWithSource");
      return program;
    }
    case ProgramForm::kSpirv:
      return CreateFromSpirv(context, device, text);
    case ProgramForm::kBinary: {
      const auto* binary = reinterpret_cast<const unsigned char*>(data);
      cl_int binary_error = CL_SUCCESS;
      ClProgram program(clCreateProgramWithBinary(context, 1, &device.device, &bytes, &binary,
                                                  &binary_error, &error));
      if (binary_error != CL_SUCCESS) {
        return FromCl(binary_error, "the driver does not take this binary");
      }
      if (error != CL_SUCCESS) return FromCl(error, "clCreateProgramWithBinary");
      return program;
    }
  }
  return MakeError(v1::INTERNAL, "unknown program form");
}

}  // namespace

absl::StatusOr<BuiltProgram> BuildProgram(cl_context context, const CatalogDevice& device,
                                          ProgramForm form, std::string_view text,
                                          const std::string& options, size_t max_log_bytes) {
  absl::StatusOr<ClProgram> program = Create(context, device, form, text);
  if (!program.ok()) return program.status();
  const cl_int error =
      clBuildProgram(program->get(), 1, &device.device, options.c_str(), nullptr, nullptr);
  std::string log = BuildLog(program->get(), device.device, max_log_bytes);
  if (error == CL_BUILD_PROGRAM_FAILURE) {
    if (form == ProgramForm::kBinary) return FromCl(CL_INVALID_BINARY, "building a binary: " + log);
    return MakeError(v1::COMPILE_FAILED, log.empty() ? "the compiler gave no log" : log);
  }
  if (error != CL_SUCCESS) return FromCl(error, "clBuildProgram(\"" + options + "\")");
  return BuiltProgram{*std::move(program), std::move(log)};
}

absl::StatusOr<std::string> ExportBinary(cl_program program) {
  // The program was made for one device, so there is one binary.
  size_t bytes = 0;
  cl_int error = clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof(bytes), &bytes, nullptr);
  if (error != CL_SUCCESS) return FromCl(error, "clGetProgramInfo(CL_PROGRAM_BINARY_SIZES)");
  if (bytes == 0) return MakeError(v1::INTERNAL, "the driver exports an empty binary");
  std::string binary(bytes, '\0');
  auto* data = reinterpret_cast<unsigned char*>(binary.data());
  error = clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof(data), &data, nullptr);
  if (error != CL_SUCCESS) return FromCl(error, "clGetProgramInfo(CL_PROGRAM_BINARIES)");
  return binary;
}

}  // namespace kcache::backend::opencl
