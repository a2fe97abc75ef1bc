#include "backends/opencl/device_description.h"

#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <fstream>

#include "backends/opencl/cl_info.h"
#include "backends/opencl/cl_status.h"
#include "backends/opencl/library_identity.h"
#include "contract/strings.h"

namespace kcache::backend::opencl {
namespace {

// cl_nv_device_attribute_query properties that the Khronos headers leave out.
constexpr cl_device_info kNvPciBusId = 0x4008;
constexpr cl_device_info kNvPciSlotId = 0x4009;
constexpr cl_device_info kNvPciDomainId = 0x400A;

// What NVIDIA's driver may keep of compiled programs, for each trust domain.
constexpr uint64_t kNvidiaCacheBytes = 256 << 20;

// Changes whenever this backend itself makes something else of the same source: the options it
// adds, how it finishes binaries, what its reflection records.
constexpr char kBackendRevision[] = "kcache-opencl-2";

std::string Extensions(cl_device_id device) { return DeviceText(device, CL_DEVICE_EXTENSIONS); }

bool HasExtension(cl_device_id device, std::string_view name) {
  return HasWord(Extensions(device), name);
}

bool IsNvidia(cl_device_id device) { return HasExtension(device, "cl_nv_device_attribute_query"); }

// Letters, digits, '.', '_' and '-' stay; anything else becomes one '-'.
std::string Word(std::string_view text) {
  std::string word;
  for (const char c : text) {
    const bool plain = std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '_';
    if (plain) {
      word += c;
    } else if (!word.empty() && word.back() != '-') {
      word += '-';
    }
  }
  while (!word.empty() && word.back() == '-') word.pop_back();
  return word;
}

// The number N of /dev/nvidiaN comes from the driver's table of cards, not from any ordinal.
std::string NvidiaDeviceNode(const std::string& pci_address) {
  std::ifstream file("/proc/driver/nvidia/gpus/" + pci_address + "/information");
  std::string line;
  constexpr std::string_view kMinor = "Device Minor:";
  while (std::getline(file, line)) {
    if (line.rfind(kMinor, 0) != 0) continue;
    const size_t digit = line.find_first_of("0123456789");
    if (digit != std::string::npos) return "/dev/nvidia" + line.substr(digit);
  }
  return {};
}

// The library that implements `platform`. An ICD's objects begin with a pointer to its dispatch
// table (cl_khr_icd), which lies in, or points into, that library.
std::string DriverLibrary(cl_platform_id platform) {
  const void* dispatch = nullptr;
  std::memcpy(&dispatch, platform, sizeof(dispatch));
  if (dispatch == nullptr) return {};
  if (std::string file = LibraryFileOf(dispatch); !file.empty()) return file;
  const void* entry = nullptr;
  std::memcpy(&entry, dispatch, sizeof(entry));
  return LibraryFileOf(entry);
}

void DescribeLimits(cl_device_id device, v1::DeviceLimits* limits) {
  limits->set_memory_bytes(DeviceValue<cl_ulong>(device, CL_DEVICE_GLOBAL_MEM_SIZE));
  limits->set_max_allocation_bytes(DeviceValue<cl_ulong>(device, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  limits->set_local_memory_bytes(DeviceValue<cl_ulong>(device, CL_DEVICE_LOCAL_MEM_SIZE));
  limits->set_max_local_size(
      static_cast<uint32_t>(DeviceValue<size_t>(device, CL_DEVICE_MAX_WORK_GROUP_SIZE)));
  const auto sizes = DeviceValue<std::array<size_t, 3>>(device, CL_DEVICE_MAX_WORK_ITEM_SIZES);
  limits->mutable_max_local_dims()->set_x(static_cast<uint32_t>(sizes[0]));
  limits->mutable_max_local_dims()->set_y(static_cast<uint32_t>(sizes[1]));
  limits->mutable_max_local_dims()->set_z(static_cast<uint32_t>(sizes[2]));
  limits->set_compute_units(DeviceValue<cl_uint>(device, CL_DEVICE_MAX_COMPUTE_UNITS));
  // The property counts bits.
  limits->set_buffer_offset_alignment(
      std::max<uint32_t>(DeviceValue<cl_uint>(device, CL_DEVICE_MEM_BASE_ADDR_ALIGN) / 8, 1));
}

}  // namespace

std::string DeviceUuid(cl_device_id device) {
  if (!HasExtension(device, "cl_khr_device_uuid")) return {};
  const auto bytes =
      DeviceValue<std::array<unsigned char, CL_UUID_SIZE_KHR>>(device, CL_DEVICE_UUID_KHR);
  if (std::all_of(bytes.begin(), bytes.end(), [](unsigned char byte) { return byte == 0; })) {
    return {};
  }
  std::string hex = ToHex({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  for (const size_t dash : {20, 16, 12, 8}) hex.insert(dash, "-");
  return IsNvidia(device) ? "GPU-" + hex : hex;
}

std::string DevicePciAddress(cl_device_id device) {
  char text[32];
  if (HasExtension(device, "cl_khr_pci_bus_info")) {
    const auto bus = DeviceValue<cl_device_pci_bus_info_khr>(device, CL_DEVICE_PCI_BUS_INFO_KHR);
    std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x", bus.pci_domain, bus.pci_bus,
                  bus.pci_device, bus.pci_function);
    return text;
  }
  if (IsNvidia(device)) {
    // The slot carries device and function as a PCI devfn.
    const auto slot = DeviceValue<cl_uint>(device, kNvPciSlotId);
    std::snprintf(text, sizeof(text), "%04x:%02x:%02x.%x",
                  DeviceValue<cl_uint>(device, kNvPciDomainId),
                  DeviceValue<cl_uint>(device, kNvPciBusId), slot >> 3, slot & 7);
    return text;
  }
  return {};
}

std::string DeviceArchitecture(const CatalogDevice& device) {
  if (IsPocl(device.platform)) {
    // "OpenCL 3.0 PoCL HSTR: pthread-x86_64-pc-linux-gnu-skylake-avx512": what PoCL itself puts
    // into its binaries.
    const std::string version = DeviceText(device.device, CL_DEVICE_VERSION);
    constexpr std::string_view kMark = "HSTR: ";
    const size_t mark = version.find(kMark);
    return "pocl-" + Word(mark == std::string::npos ? DeviceText(device.device, CL_DEVICE_NAME)
                                                    : version.substr(mark + kMark.size()));
  }
  if (IsNvidia(device.device)) {
    return "sm_" +
           std::to_string(
               DeviceValue<cl_uint>(device.device, CL_DEVICE_COMPUTE_CAPABILITY_MAJOR_NV)) +
           std::to_string(
               DeviceValue<cl_uint>(device.device, CL_DEVICE_COMPUTE_CAPABILITY_MINOR_NV));
  }
  return Word(DeviceText(device.device, CL_DEVICE_NAME));
}

std::string CompilerFingerprint(const CatalogDevice& device) {
  std::string description = kBackendRevision;
  const auto add = [&](const std::string& field) {
    description += '\n';
    description += std::to_string(field.size());
    description += ':';
    description += field;
  };
  add(PlatformText(device.platform, CL_PLATFORM_NAME));
  add(PlatformText(device.platform, CL_PLATFORM_VERSION));
  add(DeviceText(device.device, CL_DEVICE_VERSION));
  add(DeviceText(device.device, CL_DEVICE_OPENCL_C_VERSION));
  add(DeviceText(device.device, CL_DRIVER_VERSION));
  add(Extensions(device.device));
  if (const std::string driver = DriverLibrary(device.platform); !driver.empty()) {
    add(LibraryIdentity(driver));
  }
  if (IsPocl(device.platform)) {
    for (const std::string& library : LoadedLibrariesNamed({"libLLVM", "libclang"})) {
      add(LibraryIdentity(library));
    }
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(description.data()), description.size(), digest);
  return std::string(reinterpret_cast<const char*>(digest), sizeof(digest));
}

bool TakesSpirv(const CatalogDevice& device) {
  return DeviceText(device.device, CL_DEVICE_IL_VERSION).find("SPIR-V") != std::string::npos;
}

v1::DeviceInfo DescribeDevice(const CatalogDevice& device, uint32_t index) {
  v1::DeviceInfo info;
  info.mutable_device()->set_framework("OpenCL");
  info.mutable_device()->set_index(index);
  info.set_name(DeviceText(device.device, CL_DEVICE_NAME));
  info.set_vendor(DeviceText(device.device, CL_DEVICE_VENDOR));
  info.set_uuid(DeviceUuid(device.device));
  info.set_pci_address(DevicePciAddress(device.device));
  info.set_architecture(DeviceArchitecture(device));
  info.set_driver_version(DeviceText(device.device, CL_DRIVER_VERSION));
  info.set_compiler_version(PlatformText(device.platform, CL_PLATFORM_VERSION) + " / " +
                            DeviceText(device.device, CL_DEVICE_OPENCL_C_VERSION));
  info.set_compiler_fingerprint(CompilerFingerprint(device));
  DescribeLimits(device.device, info.mutable_limits());
  info.set_is_cpu(
      (DeviceValue<cl_device_type>(device.device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU) != 0);
  if (DeviceValue<cl_bool>(device.device, CL_DEVICE_AVAILABLE) == CL_TRUE) {
    info.set_state(v1::DEVICE_UP);
  } else {
    info.set_state(v1::DEVICE_UNAVAILABLE);
    info.set_reason("the driver reports the device as not available");
  }
  if (DeviceValue<cl_bool>(device.device, CL_DEVICE_COMPILER_AVAILABLE) == CL_TRUE) {
    info.add_languages("opencl-c");
    if (TakesSpirv(device)) info.add_languages("spirv");
  }
  info.add_languages("binary");
  if (IsNvidia(device.device)) {
    if (const std::string node = NvidiaDeviceNode(info.pci_address()); !node.empty()) {
      info.add_device_nodes(node);
    }
    // Binaries are PTX here, compiled again at every load.
    info.add_host_environment("CUDA_CACHE_PATH=@driver-cache@");
    info.add_host_environment("CUDA_CACHE_DISABLE=0");
    info.add_host_environment("CUDA_CACHE_MAXSIZE=" + std::to_string(kNvidiaCacheBytes));
    if (!info.uuid().empty()) {
      info.add_host_environment("CUDA_VISIBLE_DEVICES=" + info.uuid());
      info.add_host_environment(std::string(kDeviceVariable) + "=" + info.uuid());
    }
  }
  return info;
}

}  // namespace kcache::backend::opencl
