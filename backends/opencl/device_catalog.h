// Every OpenCL device of this machine in one order, which is what a device index counts.
//
// The ICD loader lists platforms as their files lie in a directory. The catalog sorts them by name,
// vendor and version and keeps each driver's own order of devices, so that an index means the same
// device in the probe, the compile and the device role. A device host that is shown one device only
// (DeviceInfo.host_environment) finds it by KCACHE_OPENCL_DEVICE, its uuid, whatever the index.
//
// Threads: any. The catalog's ids belong to the driver and live as long as the process.

#ifndef KCACHE_BACKENDS_OPENCL_DEVICE_CATALOG_H_
#define KCACHE_BACKENDS_OPENCL_DEVICE_CATALOG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/opencl/cl_api.h"

namespace kcache::backend::opencl {

// Names the one device that this process is to use: the value of DeviceInfo.uuid.
inline constexpr char kDeviceVariable[] = "KCACHE_OPENCL_DEVICE";

struct CatalogDevice {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
};

// Empty when there is no platform; a failure says why the loader itself cannot answer.
absl::StatusOr<std::vector<CatalogDevice>> ListDevices();

// The device `index`, or UNKNOWN_DEVICE naming how many there are.
absl::StatusOr<CatalogDevice> FindDevice(uint32_t index);

bool IsPocl(cl_platform_id platform);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_DEVICE_CATALOG_H_
