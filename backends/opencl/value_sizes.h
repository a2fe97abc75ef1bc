// Sizes of by-value arguments whose type the program itself defines (structs, typedefs).
//
// OpenCL tells an argument's type name but not its size, and PoCL accepts any size for such a type.
// The compiler knows: the program is built once more with a kernel for each of these types that
// requires a local size of sizeof(type), and the requirement is read back. Nothing is executed.
//
// Threads: one thread per program.

#ifndef KCACHE_BACKENDS_OPENCL_VALUE_SIZES_H_
#define KCACHE_BACKENDS_OPENCL_VALUE_SIZES_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/opencl/cl_object.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::opencl {

// Fills in `bytes` of scalar arguments that have none. `build_with` builds the program with a text
// added at its end. Sizes stay unknown when that fails.
void FindValueSizes(
    const std::function<absl::StatusOr<ClProgram>(const std::string& suffix)>& build_with,
    cl_device_id device, std::vector<v1::KernelInfo>* kernels);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_VALUE_SIZES_H_
