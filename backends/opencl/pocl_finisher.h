// Makes PoCL complete its compiling here instead of at a kernel's first launch.
//
// PoCL compiles a kernel once for each local size, at its first launch, and again when the global
// size passes 65535 in a dimension; an exported binary carries what had been compiled by then.
// Launching in the compile role would run a stranger's kernel on made-up arguments, so the finisher
// has PoCL compile without a launch: POCL_BINARY_SPECIALIZE_WG names the work-group functions that
// an export is to contain. PoCL produces only one variant of a local size per process, so the
// finisher asks for the one without a limit on the grid, which is right for every grid, and also
// files it under the name by which PoCL looks for the small-grid variant. A second program object,
// built from PoCL's cache, then exports both (an object keeps the list of its first export).
//
// Launches with a global offset are not covered: PoCL compiles those at the launch.
//
// PoCL reads the variable once: a process finishes for one list of local sizes.
//
// Threads: changes the process environment: the one thread of that process.

#ifndef KCACHE_BACKENDS_OPENCL_POCL_FINISHER_H_
#define KCACHE_BACKENDS_OPENCL_POCL_FINISHER_H_

#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "backends/opencl/cl_object.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::opencl {

// PoCL's names of what is finished for `local_sizes`: the variable's value. The same for the same
// set.
std::string PoclSpecializations(std::span<const v1::Dim3> local_sizes);

// Finishes every kernel of `program` for `specializations` and returns the program to export.
// `rebuild` builds the same program again; `cache` is the directory that POCL_CACHE_DIR names.
absl::StatusOr<ClProgram> FinishPoclProgram(
    ClProgram program, const std::string& specializations, const std::filesystem::path& cache,
    const std::function<absl::StatusOr<ClProgram>()>& rebuild);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_POCL_FINISHER_H_
