// Stands in for hip_nvidia.cc in builds without HIP's NVIDIA platform.
#include "backends/hip/hip_table.h"
#include "contract/error_reason.h"

namespace kcache::backend::hip {

absl::StatusOr<const HipTable*> LoadNvidiaHip() {
  return MakeError(v1::BACKEND_UNAVAILABLE,
                   "built without HIP's NVIDIA platform (KCACHE_HIP_NVIDIA=OFF)");
}

}  // namespace kcache::backend::hip
