// Building one program for one device, whatever it comes as.
//
// Threads: one thread per program.

#ifndef KCACHE_BACKENDS_OPENCL_PROGRAM_BUILD_H_
#define KCACHE_BACKENDS_OPENCL_PROGRAM_BUILD_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "backends/opencl/cl_object.h"
#include "backends/opencl/device_catalog.h"

namespace kcache::backend::opencl {

enum class ProgramForm { kSource, kSpirv, kBinary };

struct BuiltProgram {
  ClProgram program;
  std::string log;
};

// COMPILE_FAILED with the compiler's log, at most `max_log_bytes` of it, when the program is wrong.
// A binary that the driver does not take is UNSUPPORTED_ARCHITECTURE.
absl::StatusOr<BuiltProgram> BuildProgram(cl_context context, const CatalogDevice& device,
                                          ProgramForm form, std::string_view text,
                                          const std::string& options, size_t max_log_bytes);

// The device binary of a built program.
absl::StatusOr<std::string> ExportBinary(cl_program program);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_PROGRAM_BUILD_H_
