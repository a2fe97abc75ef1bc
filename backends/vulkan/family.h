// Vulkan as a family of devices.
//
// A device's index is its place in the loader's list. Hosts and compile workers see fewer devices
// than the probe did, so DeviceInfo::host_environment names the device for them by identity
// (KCACHE_VULKAN_DEVICE=<device UUID>/<driver UUID>), and passes on which drivers the loader was
// told to use.
//
// Threads: one at a time.

#ifndef KCACHE_BACKENDS_VULKAN_FAMILY_H_
#define KCACHE_BACKENDS_VULKAN_FAMILY_H_

#include <memory>
#include <string>

#include "backends/sdk/driver.h"
#include "backends/vulkan/instance.h"

namespace kcache::backend::vulkan {

inline constexpr char kDeviceVariable[] = "KCACHE_VULKAN_DEVICE";

// The value of KCACHE_VULKAN_DEVICE; empty when it is not set.
std::string RequestedIdentity();

// Keeps drivers' own caches and the environment's layers out of this process, so that counts,
// timings and binaries are ours. Before the first thread and the first Vulkan call.
void IsolateFromEnvironment();

class VulkanFamily : public Family {
 public:
  explicit VulkanFamily(InstanceOptions options = {}) : options_(std::move(options)) {}

  std::string_view name() const override { return "Vulkan"; }
  v1::ProbeReport Probe() override;
  absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler() override;
  absl::StatusOr<std::unique_ptr<Context>> OpenContext(const ContextOptions& options) override;

 private:
  absl::StatusOr<std::shared_ptr<Instance>> GetInstance();

  const InstanceOptions options_;
  std::shared_ptr<Instance> instance_;
};

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_FAMILY_H_
