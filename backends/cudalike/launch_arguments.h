// The argument array of a CUDA-like launch: one pointer per parameter, each to the value's bytes.
//
// Threads: an object belongs to one thread. The object borrows the arguments' bytes and keeps the
// addresses, so it outlives the launch call and no longer.
#ifndef KCACHE_BACKENDS_CUDALIKE_LAUNCH_ARGUMENTS_H_
#define KCACHE_BACKENDS_CUDALIKE_LAUNCH_ARGUMENTS_H_

#include <cstdint>
#include <span>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cudalike/stream_api.h"
#include "backends/sdk/driver.h"

namespace kcache::backend::cudalike {

class LaunchArguments {
 public:
  // The most that a kernel can take by value (CUDA 12.1: 32,764 bytes).
  static constexpr size_t kMaxParameterBytes = 32764;
  static constexpr size_t kMaxParameters = 4096;

  using AddressOf = absl::FunctionRef<absl::StatusOr<DeviceAddress>(MemoryHandle, uint64_t offset)>;

  LaunchArguments() = default;
  LaunchArguments(const LaunchArguments&) = delete;
  LaunchArguments& operator=(const LaunchArguments&) = delete;

  // Checks `arguments` against the kernel's parameter sizes and packs them. INVALID_ARGUMENTS names
  // the argument, its size and the size wanted. With `sizes_known` false nothing can be checked;
  // the driver, which knows the sizes, then reads zeros beyond what was given instead of memory
  // that is not ours.
  absl::Status Pack(std::span<const KernelArgument> arguments, bool sizes_known,
                    std::span<const uint64_t> sizes, AddressOf address_of);

  void** pointers() { return pointers_.data(); }
  size_t count() const { return count_; }

 private:
  void PadUnknown(std::span<const KernelArgument> arguments);

  absl::InlinedVector<DeviceAddress, 16> addresses_;
  absl::InlinedVector<void*, 17> pointers_;  // one more than needed: never an empty array
  std::string padded_;                       // sizes unknown: the values, then zeros
  size_t count_ = 0;
};

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_LAUNCH_ARGUMENTS_H_
