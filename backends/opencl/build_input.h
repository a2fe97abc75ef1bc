// What of a compile request reaches the driver's compiler, checked: options, and the text that goes
// before the source.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_BACKENDS_OPENCL_BUILD_INPUT_H_
#define KCACHE_BACKENDS_OPENCL_BUILD_INPUT_H_

#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/v1/backend.pb.h"

namespace kcache::backend::opencl {

// Headers are written below this directory of the compiler's working directory. It is relative and
// constant because drivers hash the options, and some put them into the binary.
inline constexpr std::string_view kHeaderDirectory = "include";

// OK when `name` is a relative path that stays below its root: what an #include may spell.
absl::Status ValidateHeaderName(std::string_view name);

// The option string. Accepted are -cl-…, -w, -W…, -g, -O…, -D, -U and -I with a relative path
// (which then means a directory of the request's headers), in one word or two. Anything else could
// read files or run programs and is BAD_REQUEST naming it.
absl::StatusOr<std::string> BuildOptions(std::span<const std::string> flags);

// #define lines for the defines, and a #line that makes the compiler count the source's lines from
// 1 again. As text and not as -D options, because drivers split their option string at blanks.
absl::StatusOr<std::string> SourcePrelude(const v1::ProgramManifest& manifest);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_BUILD_INPUT_H_
