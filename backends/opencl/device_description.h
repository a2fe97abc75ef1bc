// What a device tells about itself, as kcache shows and keys it.
//
// Threads: any.

#ifndef KCACHE_BACKENDS_OPENCL_DEVICE_DESCRIPTION_H_
#define KCACHE_BACKENDS_OPENCL_DEVICE_DESCRIPTION_H_

#include <cstdint>
#include <string>

#include "backends/opencl/device_catalog.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::opencl {

// "GPU-xxxxxxxx-…" for NVIDIA (as its other tools print it), the bare uuid elsewhere; empty when
// the driver tells none.
std::string DeviceUuid(cl_device_id device);

// "0000:0a:00.0"; empty for a device that is not on a PCI bus.
std::string DevicePciAddress(cl_device_id device);

// What a binary is for. Two devices with the same architecture take each other's binaries, as long
// as driver and compiler are the same.
std::string DeviceArchitecture(const CatalogDevice& device);

// Hash over everything that can change what the driver's compiler makes of a program: platform,
// device and driver versions, and the builds of the libraries behind them.
std::string CompilerFingerprint(const CatalogDevice& device);

// Whether the driver takes SPIR-V through clCreateProgramWithIL.
bool TakesSpirv(const CatalogDevice& device);

v1::DeviceInfo DescribeDevice(const CatalogDevice& device, uint32_t index);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_DEVICE_DESCRIPTION_H_
