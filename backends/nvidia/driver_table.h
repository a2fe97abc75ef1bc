// libcuda.so.1, opened at run time.
//
// Threads: after Load, any. Ownership: the table lives until the process ends and the library is
// never closed, because the driver's own threads and exit handlers outlive everything.
#ifndef KCACHE_BACKENDS_NVIDIA_DRIVER_TABLE_H_
#define KCACHE_BACKENDS_NVIDIA_DRIVER_TABLE_H_

#include <string_view>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/nvidia/driver_abi.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::nvidia {

struct DriverTable {
#define KCACHE_FIELD(field, symbol, signature) std::add_pointer_t<signature> field = nullptr;
  KCACHE_CUDA_DRIVER_FUNCTIONS(KCACHE_FIELD)
  KCACHE_CUDA_DRIVER_OPTIONAL_FUNCTIONS(KCACHE_FIELD)
#undef KCACHE_FIELD
};

// Opens the library once a process; later calls return the same table or the same failure.
// BACKEND_UNAVAILABLE: "libcuda.so.1 not found", or the function that it lacks.
absl::StatusOr<const DriverTable*> LoadDriver();

// A failure of the driver as a status: "what: CUDA_ERROR_NAME (number): text". Errors that no call
// of this process survives are KERNEL_FAULT or DEVICE_LOST, exhausted memory is
// OUT_OF_DEVICE_MEMORY; those that say nothing certain by themselves get `otherwise`.
absl::Status DriverError(const DriverTable& driver, CuResult result, std::string_view what,
                         v1::ErrorReason otherwise = v1::INTERNAL);

}  // namespace kcache::backend::nvidia

#endif  // KCACHE_BACKENDS_NVIDIA_DRIVER_TABLE_H_
