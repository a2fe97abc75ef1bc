// What a program may say on the compiler's command line.
//
// The architecture, the include directories and the output belong to the daemon; a path on the
// caller's disk never reaches a compiler. Everything else goes through unchanged.
//
// Threads: pure functions, any thread.
#ifndef KCACHE_BACKENDS_CUDALIKE_COMPILE_FLAGS_H_
#define KCACHE_BACKENDS_CUDALIKE_COMPILE_FLAGS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::cudalike {

// The manifest's defines and flags as options, defines first. BAD_REQUEST names the define or flag
// that is not accepted and says why. Include directories are accepted below one of
// `toolkit_directories` only.
absl::StatusOr<std::vector<std::string>> CompileOptions(
    const v1::ProgramManifest& manifest, const std::vector<std::string>& toolkit_directories);

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_COMPILE_FLAGS_H_
