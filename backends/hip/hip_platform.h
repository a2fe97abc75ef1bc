// Which of HIP's two platforms serves this node's devices, and what the devices are.
//
// Threads: one at a time. Ownership: hip_table.h.
#ifndef KCACHE_BACKENDS_HIP_HIP_PLATFORM_H_
#define KCACHE_BACKENDS_HIP_HIP_PLATFORM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/hip/hip_table.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::hip {

struct Platform {
  const HipTable* hip = nullptr;
  bool is_nvidia = false;
  // Without what a compiler adds; in the order of their indices.
  std::vector<v1::DeviceInfo> devices;
};

// AMD's platform when its runtime lists a device, else NVIDIA's when it does. BACKEND_UNAVAILABLE
// says why of both.
absl::StatusOr<Platform> OpenPlatform(const std::string& family);

// HIP's own number for a device index of ours: 0 in a process that sees one device only.
int HipOrdinalOf(const Platform& platform, uint32_t index);

}  // namespace kcache::backend::hip

#endif  // KCACHE_BACKENDS_HIP_HIP_PLATFORM_H_
