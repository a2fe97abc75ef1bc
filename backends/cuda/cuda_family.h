// The CUDA family: what kcache-backend-cuda serves.
//
// Threads: driver.h. Ownership: nothing is opened before it is asked for.
#ifndef KCACHE_BACKENDS_CUDA_CUDA_FAMILY_H_
#define KCACHE_BACKENDS_CUDA_CUDA_FAMILY_H_

#include <memory>

#include "backends/sdk/driver.h"

namespace kcache::backend::cuda {

std::unique_ptr<Family> MakeCudaFamily();

}  // namespace kcache::backend::cuda

#endif  // KCACHE_BACKENDS_CUDA_CUDA_FAMILY_H_
