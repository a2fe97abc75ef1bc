#include "backends/opencl/device_catalog.h"

#include <algorithm>
#include <cstdlib>
#include <tuple>

#include "backends/opencl/cl_info.h"
#include "backends/opencl/cl_status.h"
#include "backends/opencl/device_description.h"
#include "contract/error_reason.h"

namespace kcache::backend::opencl {

absl::StatusOr<std::vector<CatalogDevice>> ListDevices() {
  cl_uint count = 0;
  cl_int error = clGetPlatformIDs(0, nullptr, &count);
  // The loader's way to say that no driver is registered.
  if (error == CL_PLATFORM_NOT_FOUND_KHR || (error == CL_SUCCESS && count == 0)) {
    return std::vector<CatalogDevice>{};
  }
  if (error != CL_SUCCESS) return FromCl(error, "clGetPlatformIDs");
  std::vector<cl_platform_id> platforms(count);
  error = clGetPlatformIDs(count, platforms.data(), nullptr);
  if (error != CL_SUCCESS) return FromCl(error, "clGetPlatformIDs");

  using Key = std::tuple<std::string, std::string, std::string>;
  std::vector<std::pair<Key, cl_platform_id>> keyed;
  for (cl_platform_id platform : platforms) {
    keyed.emplace_back(
        Key{PlatformText(platform, CL_PLATFORM_NAME), PlatformText(platform, CL_PLATFORM_VENDOR),
            PlatformText(platform, CL_PLATFORM_VERSION)},
        platform);
  }
  std::stable_sort(keyed.begin(), keyed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });

  std::vector<CatalogDevice> catalog;
  for (const auto& [key, platform] : keyed) {
    cl_uint devices = 0;
    error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices);
    if (error != CL_SUCCESS || devices == 0) continue;  // a driver whose hardware is absent
    std::vector<cl_device_id> ids(devices);
    error = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, devices, ids.data(), nullptr);
    if (error != CL_SUCCESS) continue;
    for (cl_device_id id : ids) catalog.push_back({platform, id});
  }
  return catalog;
}

absl::StatusOr<CatalogDevice> FindDevice(uint32_t index) {
  absl::StatusOr<std::vector<CatalogDevice>> catalog = ListDevices();
  if (!catalog.ok()) return catalog.status();
  if (const char* uuid = std::getenv(kDeviceVariable); uuid != nullptr && *uuid != '\0') {
    for (const CatalogDevice& device : *catalog) {
      if (DeviceUuid(device.device) == uuid) return device;
    }
    return MakeError(v1::UNKNOWN_DEVICE, "no OpenCL device has the uuid " + std::string(uuid) +
                                             ", which " + kDeviceVariable + " names");
  }
  if (index >= catalog->size()) {
    return MakeError(v1::UNKNOWN_DEVICE, "no device OpenCL:" + std::to_string(index) +
                                             "; there are " + std::to_string(catalog->size()));
  }
  return (*catalog)[index];
}

bool IsPocl(cl_platform_id platform) {
  return PlatformText(platform, CL_PLATFORM_NAME) == "Portable Computing Language";
}

}  // namespace kcache::backend::opencl
