// What of a compile request reaches the driver's compiler, checked: options, and the text that goes
// before the source.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_BACKENDS_OPENCL_BUILD_INPUT_H_
#define KCACHE_BACKENDS_OPENCL_BUILD_INPUT_H_

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

// The option string. Accepted flags are -cl-…, -w, -W…, -g, -O…, -D, -U and -I with a relative path
// (which then means a directory of the request's headers), in one word or two. Anything else could
// read files or run programs and is BAD_REQUEST naming it. Defines come first, so that a flag can
// undo one.
absl::StatusOr<std::string> BuildOptions(const v1::ProgramManifest& manifest);

// Of the flags, those that are to be given again when the binary is loaded: some are settings of
// the launch and not of the code (PoCL's -cl-denorms-are-zero).
std::string LoadOptions(const v1::ProgramManifest& manifest);

// Where an artifact keeps them, in Artifact.extra.
inline constexpr char kLoadOptionsKey[] = "opencl-load-options";

// An option that changes with the headers' content. NVIDIA's driver cache goes by source and
// options and would give back what it made of other headers.
std::string HeaderOption(const v1::CompileRequest& request);

// #define lines for those defines that do not fit into an option, because drivers split their
// option string at blanks, and a #line so that the compiler counts the source's lines from 1
// (NVIDIA's does not mind it and counts on). Usually empty.
absl::StatusOr<std::string> SourcePrelude(const v1::ProgramManifest& manifest);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_BUILD_INPUT_H_
