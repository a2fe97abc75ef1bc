// Sizes of OpenCL C's own types by name, as the host passes them by value.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_BACKENDS_OPENCL_ARGUMENT_TYPES_H_
#define KCACHE_BACKENDS_OPENCL_ARGUMENT_TYPES_H_

#include <cstdint>
#include <optional>
#include <string_view>

namespace kcache::backend::opencl {

// Bytes of a scalar or vector type of OpenCL C ("uint", "unsigned int", "float3": 16); nothing for
// any other name. A program cannot give these names another meaning.
std::optional<uint64_t> BuiltinTypeBytes(std::string_view name);

bool IsImageType(std::string_view name);
bool IsSamplerType(std::string_view name);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_ARGUMENT_TYPES_H_
