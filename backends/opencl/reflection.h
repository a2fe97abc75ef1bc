// What a built program tells about its kernels.
//
// clGetKernelArgInfo gives qualifiers and type names but no sizes. Sizes of OpenCL C's own types
// are known by name; of others (structs by value, typedefs) the one that clSetKernelArg accepts is
// found by trying. Programs made from binaries tell less: their arguments are counted, kind and
// size unknown.
//
// Threads: one thread per program.

#ifndef KCACHE_BACKENDS_OPENCL_REFLECTION_H_
#define KCACHE_BACKENDS_OPENCL_REFLECTION_H_

#include <vector>

#include "absl/status/statusor.h"
#include "backends/opencl/cl_api.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::opencl {

// Every kernel of `program`, by name.
absl::StatusOr<std::vector<v1::KernelInfo>> ReflectProgram(cl_program program, cl_device_id device);

// One kernel; also sets arguments of `kernel` while it looks for sizes.
absl::StatusOr<v1::KernelInfo> ReflectKernel(cl_kernel kernel, cl_device_id device);

// The work_group_size_hint of `kernel`, all zero when it has none.
v1::Dim3 LocalSizeHint(cl_kernel kernel);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_REFLECTION_H_
