// Where the drivers' own kernel caches go.
//
// A driver cache shared between processes would hide compiles from kcache's counts and timings and
// let one user's process feed another's. So PoCL gets a cache of this process alone. NVIDIA's
// "binaries" are PTX that is compiled again at every load, so for a device host its cache is kept:
// kcached gives each trust domain one per driver version (CUDA_CACHE_PATH, see DescribeDevice). Without
// that variable the driver's cache is below $HOME, which for kcached's processes is private too.
//
// Threads: made once, by main, before the first OpenCL call; the drivers read the environment then.
// Ownership: the private directory is removed with this object.

#ifndef KCACHE_BACKENDS_OPENCL_DRIVER_CACHES_H_
#define KCACHE_BACKENDS_OPENCL_DRIVER_CACHES_H_

#include <filesystem>

#include "absl/status/statusor.h"
#include "backends/opencl/private_directory.h"

namespace kcache::backend::opencl {

class DriverCaches {
 public:
  static absl::StatusOr<DriverCaches> Isolate();

  // PoCL's cache; program directories lie two levels below.
  const std::filesystem::path& pocl() const { return directory_.path(); }

 private:
  explicit DriverCaches(PrivateDirectory directory) : directory_(std::move(directory)) {}

  PrivateDirectory directory_;
};

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_DRIVER_CACHES_H_
