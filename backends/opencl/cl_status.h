// OpenCL's error numbers as typed statuses that carry the number's name.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_BACKENDS_OPENCL_CL_STATUS_H_
#define KCACHE_BACKENDS_OPENCL_CL_STATUS_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "backends/opencl/cl_api.h"

namespace kcache::backend::opencl {

// "CL_INVALID_VALUE", or "CL error -9999" for a number that the headers do not name.
std::string ClErrorName(cl_int error);

// OK for CL_SUCCESS; else "`what`: CL_…" with the reason that the number stands for when an API
// call returns it.
absl::Status FromCl(cl_int error, std::string_view what);

// The same for a number that a finished command left behind. A command that fails after it was
// accepted has hit a fault of its kernel or of the device, and the context is not to be used again.
absl::Status FromCompletedCommand(cl_int error, std::string_view what);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_CL_STATUS_H_
