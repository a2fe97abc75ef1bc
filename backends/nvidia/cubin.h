// Reads from a cubin, without a device or a driver, what a launch needs to know of its kernels.
//
// A cubin is an ELF file. Attributes of a kernel are in the section ".nv.info.<kernel>", those of
// all kernels in ".nv.info", as records {format, attribute, value or size, payload}; the names used
// here (KPARAM_INFO and so on) are those that cuobjdump prints. Kinds of arguments are not
// recorded, only sizes and offsets.
//
// Threads: pure functions, any thread.
#ifndef KCACHE_BACKENDS_NVIDIA_CUBIN_H_
#define KCACHE_BACKENDS_NVIDIA_CUBIN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::nvidia {

struct Cubin {
  uint32_t compute_capability = 0;      // 90 for 9.0
  std::vector<v1::KernelInfo> kernels;  // by lowered name; `entry` is not set
};

// BAD_REQUEST says what is wrong with the file.
absl::StatusOr<Cubin> ReadCubin(std::string_view file);

}  // namespace kcache::backend::nvidia

#endif  // KCACHE_BACKENDS_NVIDIA_CUBIN_H_
