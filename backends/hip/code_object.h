// Reads from an AMD code object, without a device or a runtime, what a launch needs to know of its
// kernels: LLVM's "User Guide for AMDGPU Backend", Code Object Metadata. Unlike CUDA's, it tells
// the kinds of the arguments.
//
// Threads: pure functions, any thread.
#ifndef KCACHE_BACKENDS_HIP_CODE_OBJECT_H_
#define KCACHE_BACKENDS_HIP_CODE_OBJECT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::hip {

struct CodeObject {
  std::string target;                   // "gfx90a", "gfx90a:sramecc+:xnack-"
  std::vector<v1::KernelInfo> kernels;  // by lowered name; `entry` is not set
};

// BAD_REQUEST says what is wrong: not an ELF file for AMD's GPUs, no metadata, a kernel that the
// metadata describes but no symbol defines.
absl::StatusOr<CodeObject> ReadCodeObject(std::string_view file);

// "gfx90a" of "gfx90a:sramecc+:xnack-".
std::string_view ProcessorOf(std::string_view target);

}  // namespace kcache::backend::hip

#endif  // KCACHE_BACKENDS_HIP_CODE_OBJECT_H_
