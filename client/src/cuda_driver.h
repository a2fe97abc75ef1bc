// The few functions of libcuda.so.1 that load a module into an application's own context.
//
// Threads: any. Ownership: the table lives until the process ends; the library is never closed.

#ifndef KCACHE_CLIENT_CUDA_DRIVER_H_
#define KCACHE_CLIENT_CUDA_DRIVER_H_

#include "absl/status/statusor.h"

namespace kcache::internal {

struct CudaDriver {
  int (*get_error_name)(int, const char**) = nullptr;
  int (*context_get_current)(void**) = nullptr;
  int (*context_push)(void*) = nullptr;
  int (*context_pop)(void**) = nullptr;
  int (*module_load_data)(void**, const void*) = nullptr;
  int (*module_unload)(void*) = nullptr;
  int (*module_get_function)(void**, void*, const char*) = nullptr;
};

// BACKEND_UNAVAILABLE: "libcuda.so.1 not found".
absl::StatusOr<const CudaDriver*> LoadCudaDriver();

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_CUDA_DRIVER_H_
