// Devices as the daemon lists them.
//
// Plain values; no threads, no ownership.

#ifndef KCACHE_DEVICE_H_
#define KCACHE_DEVICE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "kcache/launch.h"

namespace kcache {

// A device is the pair (framework, index). The framework is a family ("CUDA") or a refinement of
// one
// ("CUDA/PTX"); the index is the backend's own, so CUDA:0 and OpenCL:0 may or may not be one card.
struct DeviceId {
  std::string framework;
  uint32_t index = 0;

  // "OpenCL:0"
  std::string ToString() const;

  friend bool operator==(const DeviceId&, const DeviceId&) = default;
  friend auto operator<=>(const DeviceId&, const DeviceId&) = default;
};

std::ostream& operator<<(std::ostream& out, const DeviceId& device);

enum class DeviceState {
  kUnknown = 0,
  kUp = 1,
  kDraining = 2,     // a teardown is running
  kDown = 3,         // kept down by an operator
  kUnavailable = 4,  // its backend or driver is away
};

std::string_view DeviceStateName(DeviceState state);

// Zero means "no limit known".
struct DeviceLimits {
  uint64_t memory_bytes = 0;
  uint64_t max_allocation_bytes = 0;
  uint64_t local_memory_bytes = 0;
  uint32_t max_local_size = 0;  // product of the dimensions
  Dim3 max_local_dims;
  uint64_t max_grid_x = 0, max_grid_y = 0, max_grid_z = 0;  // in work-groups
  uint32_t push_constant_bytes = 0;
  uint32_t compute_units = 0;
  // A BufferView that begins at a multiple of this is shown to kernels in place. Elsewhere OpenCL
  // copies it around the launch, and Vulkan refuses it with INVALID_ARGUMENTS. 1: any offset.
  uint32_t buffer_offset_alignment = 0;
};

struct DeviceInfo {
  DeviceId id;
  // The daemon's own number for this device in this life of it. Retired by a reset: a request that
  // names a retired one fails with ID_RETIRED and never reaches another device.
  uint64_t global_id = 0;
  std::string name;
  std::string vendor;
  std::string uuid;
  std::string pci_address;   // "0000:0a:00.0"; empty when there is none
  std::string architecture;  // what compiles target: "sm_90a", "gfx90a", "pocl-x86_64-…"
  std::string driver_version;
  std::string compiler_version;
  std::vector<std::string> variants;   // "PTX" for CUDA/PTX
  std::vector<std::string> languages;  // what a Program for it may be written in
  DeviceLimits limits;
  DeviceState state = DeviceState::kUnknown;
  std::string reason;  // why it is not up
  bool is_cpu = false;
};

// A family that has no devices here, and why: "libcuda.so.1 not found".
struct UnavailableFamily {
  std::string family;
  std::string reason;
};

struct DeviceList {
  std::vector<DeviceInfo> devices;
  std::vector<UnavailableFamily> unavailable;
};

}  // namespace kcache

#endif  // KCACHE_DEVICE_H_
