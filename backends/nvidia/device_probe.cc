#include "backends/nvidia/device_probe.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "backends/cudalike/device_modes.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::nvidia {
namespace {

constexpr char kProc[] = "/proc/driver/nvidia";
constexpr char kVisibleDevices[] = "CUDA_VISIBLE_DEVICES";

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// "580.159.03" from "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.03  Tue …".
std::string KernelModuleVersion() {
  const std::string text = ReadText(absl::StrCat(kProc, "/version"));
  for (size_t at = 0; at < text.size();) {
    const size_t start = text.find_first_not_of(" \t\n", at);
    if (start == std::string::npos) break;
    at = std::min(text.find_first_of(" \t\n", start), text.size());
    std::string word = text.substr(start, at - start);
    const bool is_version = word.find('.') != std::string::npos &&
                            word.find_first_not_of("0123456789.") == std::string::npos;
    if (is_version) return word;
  }
  return "";
}

std::string DriverVersion(const DriverTable& driver) {
  int version = 0;
  (void)driver.driver_get_version(&version);
  const std::string cuda = absl::StrCat("CUDA ", version / 1000, ".", version % 1000 / 10);
  const std::string module = KernelModuleVersion();
  return module.empty() ? cuda : absl::StrCat(module, " (", cuda, ")");
}

std::string UuidText(const CuUuid& uuid, std::string_view prefix) {
  const std::string hex = ToHex({reinterpret_cast<const char*>(uuid.bytes), sizeof(uuid.bytes)});
  return absl::StrCat(AbslView(prefix), hex.substr(0, 8), "-", hex.substr(8, 4), "-",
                      hex.substr(12, 4), "-", hex.substr(16, 4), "-", hex.substr(20));
}

class DeviceReader {
 public:
  DeviceReader(const DriverTable& driver, CuDevice device) : driver_(driver), device_(device) {}

  // 0 for an attribute that this driver does not know.
  int Attribute(CuDeviceAttribute attribute) const {
    int value = 0;
    if (driver_.device_get_attribute(&value, attribute, device_) != kCudaSuccess) return 0;
    return value;
  }
  uint32_t Count(CuDeviceAttribute attribute) const {
    return static_cast<uint32_t>(Attribute(attribute));
  }

  void ReadIdentity(v1::DeviceInfo* info) const {
    char name[256] = {};
    (void)driver_.device_get_name(name, sizeof(name) - 1, device_);
    info->set_name(name);
    info->set_vendor("NVIDIA");
    char address[32];
    std::snprintf(address, sizeof(address), "%04x:%02x:%02x.0", Attribute(kAttributePciDomainId),
                  Attribute(kAttributePciBusId), Attribute(kAttributePciDeviceId));
    info->set_pci_address(address);
    CuUuid card{};
    CuUuid instance{};
    (void)driver_.device_get_uuid(&card, device_);
    instance = card;
    if (driver_.device_get_uuid_v2 != nullptr) (void)driver_.device_get_uuid_v2(&instance, device_);
    // The first function names the card, the second the MIG instance, if it is one.
    info->set_mig(std::memcmp(card.bytes, instance.bytes, sizeof(card.bytes)) != 0);
    info->set_uuid(UuidText(instance, info->mig() ? "MIG-" : "GPU-"));
    info->set_architecture(DefaultArchitecture(Attribute(kAttributeComputeCapabilityMajor),
                                               Attribute(kAttributeComputeCapabilityMinor)));
    const int minor = DeviceMinor(ReadText(absl::StrCat(kProc, "/gpus/", address, "/information")));
    if (minor >= 0) info->add_device_nodes(absl::StrCat("/dev/nvidia", minor));
  }

  void ReadLimits(v1::DeviceLimits* limits) const {
    size_t memory = 0;
    (void)driver_.device_total_mem(&memory, device_);
    limits->set_memory_bytes(memory);
    limits->set_max_allocation_bytes(memory);
    limits->set_local_memory_bytes(Count(kAttributeMaxSharedMemoryPerBlockOptin));
    limits->set_max_local_size(Count(kAttributeMaxThreadsPerBlock));
    limits->mutable_max_local_dims()->set_x(Count(kAttributeMaxBlockDimX));
    limits->mutable_max_local_dims()->set_y(Count(kAttributeMaxBlockDimY));
    limits->mutable_max_local_dims()->set_z(Count(kAttributeMaxBlockDimZ));
    limits->set_max_grid_x(Count(kAttributeMaxGridDimX));
    limits->set_max_grid_y(Count(kAttributeMaxGridDimY));
    limits->set_max_grid_z(Count(kAttributeMaxGridDimZ));
    limits->set_compute_units(Count(kAttributeMultiprocessorCount));
    limits->set_buffer_offset_alignment(1);  // plain addresses
  }

  // After ReadIdentity, which finds out about MIG.
  void ReadModes(v1::DeviceInfo* info) const {
    cudalike::DescribeModes({.compute_mode = Attribute(kAttributeComputeMode),
                             .mps = Attribute(kAttributeMpsEnabled) != 0,
                             .mig = info->mig()},
                            info);
  }

 private:
  const DriverTable& driver_;
  const CuDevice device_;
};

}  // namespace

std::string DefaultArchitecture(int major, int minor) {
  return absl::StrCat("sm_", major, minor, major >= 9 ? "a" : "");
}

int DeviceMinor(const std::string& information) {
  constexpr std::string_view kLabel = "Device Minor:";
  const size_t label = information.find(kLabel);
  if (label == std::string::npos) return -1;
  const size_t start = information.find_first_of("0123456789\n", label + kLabel.size());
  if (start == std::string::npos) return -1;
  const size_t end = information.find_first_not_of("0123456789", start);
  int minor = -1;
  if (!absl::SimpleAtoi(information.substr(start, end - start), &minor)) return -1;
  return minor;
}

int OrdinalOf(uint32_t index) {
  const char* visible = std::getenv(kVisibleDevices);
  const std::string_view text = visible == nullptr ? "" : visible;
  const bool is_one_device = (text.starts_with("GPU-") || text.starts_with("MIG-")) &&
                             text.find(',') == std::string_view::npos;
  return is_one_device ? 0 : static_cast<int>(index);
}

absl::Status InitializeDriver(const DriverTable& driver) {
  // The driver reads these in cuInit; what the operator has set stays.
  setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID", 0);
  setenv("CUDA_CACHE_DISABLE", "1", 0);
  setenv("CUDA_MODULE_LOADING", "EAGER", 0);
  const CuResult result = driver.init(0);
  if (result == kCudaSuccess) return absl::OkStatus();
  return DriverError(driver, result, "cuInit", v1::BACKEND_UNAVAILABLE);
}

absl::StatusOr<std::vector<v1::DeviceInfo>> ListDevices(const DriverTable& driver,
                                                        const std::string& family) {
  int count = 0;
  CuResult result = driver.device_get_count(&count);
  if (result != kCudaSuccess) return DriverError(driver, result, "cuDeviceGetCount");
  const std::string version = DriverVersion(driver);
  std::vector<v1::DeviceInfo> devices;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    CuDevice device = 0;
    result = driver.device_get(&device, ordinal);
    if (result != kCudaSuccess) return DriverError(driver, result, "cuDeviceGet");
    v1::DeviceInfo info;
    info.mutable_device()->set_framework(family);
    info.mutable_device()->set_index(static_cast<uint32_t>(ordinal));
    info.set_driver_version(version);
    const DeviceReader reader(driver, device);
    reader.ReadIdentity(&info);
    reader.ReadLimits(info.mutable_limits());
    reader.ReadModes(&info);
    info.add_host_environment(absl::StrCat(kVisibleDevices, "=", info.uuid()));
    info.add_host_environment("CUDA_DEVICE_ORDER=PCI_BUS_ID");
    info.add_host_environment("CUDA_CACHE_DISABLE=1");
    info.add_host_environment("CUDA_MODULE_LOADING=EAGER");
    devices.push_back(std::move(info));
  }
  return devices;
}

}  // namespace kcache::backend::nvidia
