// Parts of buffers that a kernel cannot be shown in place.
//
// A sub-buffer begins at a multiple of CL_DEVICE_MEM_BASE_ADDR_ALIGN (512 bytes on NVIDIA, 128 with
// PoCL). A part that begins elsewhere is copied into a buffer of its own before the launch and back
// behind it, on the launch's queue, so that the kernel's results are where the caller expects them.
// Parts that overlap must share one copy, which takes offsets that differ by a multiple of the
// alignment; where they do not, no correct answer exists, and the launch is refused.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_BACKENDS_OPENCL_STAGING_H_
#define KCACHE_BACKENDS_OPENCL_STAGING_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/sdk/driver.h"

namespace kcache::backend::opencl {

// Bytes [begin, end) of `memory`, to be copied for one launch.
struct StagedRange {
  MemoryHandle memory = 0;
  uint64_t begin = 0;
  uint64_t end = 0;

  bool Holds(const KernelArgument& argument) const {
    return argument.kind == KernelArgument::Kind::kBuffer && argument.memory == memory &&
           argument.offset >= begin && argument.offset < end;
  }
};

// Whether some buffer argument begins where the device has no sub-buffers.
bool NeedsStaging(std::span<const KernelArgument> arguments, uint64_t alignment);

// What has to be copied: ranges that do not overlap, each beginning with an argument. In each, every
// argument lies at a multiple of `alignment`. INVALID_ARGUMENTS, naming offsets and alignment, for
// parts that overlap and cannot share a copy.
absl::StatusOr<std::vector<StagedRange>> PlanStaging(std::span<const KernelArgument> arguments,
                                                     uint64_t alignment);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_STAGING_H_
