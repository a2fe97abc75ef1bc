#include "backends/hip/hip_platform.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "backends/cudalike/device_modes.h"
#include "backends/nvidia/device_probe.h"
#include "backends/nvidia/driver_table.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::hip {
namespace {

namespace fs = std::filesystem;

constexpr char kAmdVisibleDevices[] = "ROCR_VISIBLE_DEVICES";

// "/dev/dri/renderD128" of the card at a PCI address.
std::vector<std::string> RenderNodes(const std::string& pci_address) {
  std::vector<std::string> nodes;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(
           absl::StrCat("/sys/bus/pci/devices/", pci_address, "/drm"), ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("renderD")) nodes.push_back(absl::StrCat("/dev/dri/", name));
  }
  return nodes;
}

v1::DeviceInfo AmdDevice(const std::string& family, uint32_t index,
                         const HipDeviceProperties& properties, int runtime_version) {
  v1::DeviceInfo info;
  info.mutable_device()->set_framework(family);
  info.mutable_device()->set_index(index);
  info.set_name(properties.name);
  info.set_vendor("AMD");
  info.set_uuid(properties.uuid);
  char address[32];
  std::snprintf(address, sizeof(address), "%04x:%02x:%02x.0", properties.pci_domain,
                properties.pci_bus, properties.pci_device);
  info.set_pci_address(address);
  info.set_architecture(properties.architecture);
  info.set_driver_version(
      absl::StrCat("HIP ", runtime_version / 10'000'000, ".", runtime_version / 100'000 % 100));
  cudalike::DescribeModes({.compute_mode = properties.compute_mode}, &info);
  for (const std::string& node : RenderNodes(address)) info.add_device_nodes(node);
  info.add_host_environment(absl::StrCat(kAmdVisibleDevices, "=", properties.uuid));
  v1::DeviceLimits* limits = info.mutable_limits();
  limits->set_memory_bytes(properties.memory_bytes);
  limits->set_max_allocation_bytes(properties.memory_bytes);
  limits->set_local_memory_bytes(properties.shared_bytes);
  limits->set_max_local_size(properties.max_threads);
  limits->mutable_max_local_dims()->set_x(properties.max_block[0]);
  limits->mutable_max_local_dims()->set_y(properties.max_block[1]);
  limits->mutable_max_local_dims()->set_z(properties.max_block[2]);
  limits->set_max_grid_x(properties.max_grid[0]);
  limits->set_max_grid_y(properties.max_grid[1]);
  limits->set_max_grid_z(properties.max_grid[2]);
  limits->set_compute_units(properties.compute_units);
  limits->set_buffer_offset_alignment(1);  // plain addresses
  return info;
}

absl::StatusOr<Platform> OpenAmd(const std::string& family) {
  absl::StatusOr<const HipTable*> hip = LoadAmdHip();
  if (!hip.ok()) return hip.status();
  int count = 0;
  HipResult result = (*hip)->init();
  if (result == kHipSuccess) result = (*hip)->device_count(&count);
  // Without a GPU the runtime answers with either of these.
  const bool has_none = result == kHipErrorNoDevice || result == kHipErrorInvalidDevice;
  if (result != kHipSuccess && !has_none) {
    return HipError(**hip, result, "hipInit", v1::BACKEND_UNAVAILABLE);
  }
  if (count == 0) return MakeError(v1::BACKEND_UNAVAILABLE, "the runtime lists no device");
  int version = 0;
  (void)(*hip)->runtime_version(&version);
  Platform platform;
  platform.hip = *hip;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    HipDeviceProperties properties;
    result = (*hip)->device_properties(ordinal, &properties);
    if (result != kHipSuccess) return HipError(**hip, result, "hipGetDeviceProperties");
    platform.devices.push_back(
        AmdDevice(family, static_cast<uint32_t>(ordinal), properties, version));
  }
  return platform;
}

absl::StatusOr<Platform> OpenNvidia(const std::string& family) {
  absl::StatusOr<const HipTable*> hip = LoadNvidiaHip();
  if (!hip.ok()) return hip.status();
  absl::StatusOr<const nvidia::DriverTable*> driver = nvidia::LoadDriver();
  if (!driver.ok()) return driver.status();
  if (absl::Status status = nvidia::InitializeDriver(**driver); !status.ok()) return status;
  absl::StatusOr<std::vector<v1::DeviceInfo>> devices = nvidia::ListDevices(**driver, family);
  if (!devices.ok()) return devices.status();
  if (devices->empty()) return MakeError(v1::BACKEND_UNAVAILABLE, "the driver lists no device");
  Platform platform;
  platform.hip = *hip;
  platform.is_nvidia = true;
  platform.devices = *std::move(devices);
  return platform;
}

}  // namespace

absl::StatusOr<Platform> OpenPlatform(const std::string& family) {
  absl::StatusOr<Platform> amd = OpenAmd(family);
  if (amd.ok()) return amd;
  absl::StatusOr<Platform> nvidia = OpenNvidia(family);
  if (nvidia.ok()) return nvidia;
  return MakeError(v1::BACKEND_UNAVAILABLE, absl::StrCat("AMD: ", amd.status().message(),
                                                         "; NVIDIA: ", nvidia.status().message()));
}

int HipOrdinalOf(const Platform& platform, uint32_t index) {
  if (platform.is_nvidia) return nvidia::OrdinalOf(index);
  const char* visible = std::getenv(kAmdVisibleDevices);
  const std::string_view text = visible == nullptr ? "" : visible;
  const bool is_one_device = text.starts_with("GPU-") && text.find(',') == std::string_view::npos;
  return is_one_device ? 0 : static_cast<int>(index);
}

}  // namespace kcache::backend::hip
