// Lists NVIDIA devices as the driver shows them, without making a context.
//
// Devices are numbered in the order of their PCI addresses, so that an index means the same card
// after a driver update. A process that CUDA_VISIBLE_DEVICES confines to one device sees that
// device alone.
//
// Threads: one at a time, before anything else of the driver's is used.
#ifndef KCACHE_BACKENDS_NVIDIA_DEVICE_PROBE_H_
#define KCACHE_BACKENDS_NVIDIA_DEVICE_PROBE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/nvidia/driver_table.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::nvidia {

// Settings of the driver that every role of ours wants: devices in PCI order, no disk cache of its
// own, modules loaded when they are loaded and not at the first launch. Then cuInit.
absl::Status InitializeDriver(const DriverTable& driver);

// All fields of DeviceInfo that do not depend on a compiler. `framework` of the devices is
// `family`.
absl::StatusOr<std::vector<v1::DeviceInfo>> ListDevices(const DriverTable& driver,
                                                        const std::string& family);

// The driver's ordinal for a device index of ours: itself, or 0 in a confined process.
int OrdinalOf(uint32_t index);

// "sm_90a": code for exactly this chip, where the chip has instructions of its own.
std::string DefaultArchitecture(int major, int minor);

// The value of "Device Minor" in the text of /proc/driver/nvidia/gpus/<pci>/information; -1 when it
// is not there. Minors come from the PCI address, not from the ordinal.
int DeviceMinor(const std::string& information);

}  // namespace kcache::backend::nvidia

#endif  // KCACHE_BACKENDS_NVIDIA_DEVICE_PROBE_H_
