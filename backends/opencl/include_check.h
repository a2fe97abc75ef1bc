// Includes that would read the compiler's disk.
//
// PoCL compiles with clang in its own process, which opens whatever an #include names. Headers come
// by content and nothing else is a program's to read, so names that are absolute or climb out of
// the headers are refused before the compiler sees them; so are computed ones (#include MACRO),
// which cannot be judged. The sandbox around the worker is the second line.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_BACKENDS_OPENCL_INCLUDE_CHECK_H_
#define KCACHE_BACKENDS_OPENCL_INCLUDE_CHECK_H_

#include "absl/status/status.h"
#include "kcache/v1/backend.pb.h"

namespace kcache::backend::opencl {

// Checks the source, if it is one, and every header: BAD_REQUEST naming where and what.
absl::Status CheckIncludes(const v1::CompileRequest& request);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_INCLUDE_CHECK_H_
