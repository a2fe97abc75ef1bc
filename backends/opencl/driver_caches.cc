#include "backends/opencl/driver_caches.h"

#include <cstdlib>

namespace kcache::backend::opencl {

absl::StatusOr<DriverCaches> DriverCaches::Isolate() {
  absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make("kcache-pocl-");
  if (!directory.ok()) return directory.status();
  setenv("POCL_CACHE_DIR", directory->path().c_str(), 1);
  // What a user's shell asks of PoCL must not change what its compiler produces.
  for (const char* name : {"POCL_EXTRA_BUILD_FLAGS", "POCL_WORK_GROUP_METHOD", "POCL_KERNEL_CACHE",
                           "POCL_BINARY_SPECIALIZE_WG", "POCL_LEAVE_KERNEL_COMPILER_TEMP_FILES"}) {
    unsetenv(name);
  }
  return DriverCaches(*std::move(directory));
}

}  // namespace kcache::backend::opencl
