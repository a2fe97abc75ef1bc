// Reads from PTX what a launch needs to know of its kernels: the .entry directives with their
// parameters and performance directives (PTX ISA, "Kernel and Function Directives").
//
// Threads: pure functions, any thread.
#ifndef KCACHE_BACKENDS_NVIDIA_PTX_H_
#define KCACHE_BACKENDS_NVIDIA_PTX_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::nvidia {

struct Ptx {
  std::string version;                  // ".version", "9.0"
  std::string target;                   // ".target", "sm_90a"
  std::vector<v1::KernelInfo> kernels;  // by lowered name; `entry` is not set
};

// BAD_REQUEST names the line that cannot be understood.
absl::StatusOr<Ptx> ReadPtx(std::string_view text);

}  // namespace kcache::backend::nvidia

#endif  // KCACHE_BACKENDS_NVIDIA_PTX_H_
