// HIP on AMD's GPUs: libamdhip64, opened at run time.
#define __HIP_PLATFORM_AMD__ 1  // NOLINT(bugprone-reserved-identifier): what HIP's headers read
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/hip/hip_table.h"
#include "contract/error_reason.h"

namespace kcache::backend::hip {
namespace {

constexpr char kLibrary[] = "libamdhip64.so.5";

// Functions whose signature is the table's, but for enumerations and typed handles of the same
// size.
template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

// Functions that the table calls with less, through a call of the header's own signature.
struct AmdFunctions {
  decltype(&hipInit) init = nullptr;
  decltype(&hipSetDeviceFlags) set_device_flags = nullptr;
  decltype(&hipSetDevice) set_device = nullptr;
  hipError_t (*get_device_properties)(hipDeviceProp_t*, int) = nullptr;
  decltype(&hipDeviceGetUuid) device_get_uuid = nullptr;
  decltype(&hipDeviceGetAttribute) device_get_attribute = nullptr;
  hipError_t (*host_malloc)(void**, size_t, unsigned) = nullptr;
  decltype(&hipHostGetDevicePointer) host_get_device_pointer = nullptr;
  decltype(&hipStreamCreateWithFlags) stream_create_with_flags = nullptr;
  decltype(&hipEventCreateWithFlags) event_create_with_flags = nullptr;
  decltype(&hipModuleLaunchKernel) module_launch_kernel = nullptr;
};

AmdFunctions amd;  // filled once by LoadAmdHip, before the table is given out

bool ResolveOwn(void* library) {
  return Resolve(library, "hipInit", &amd.init) &&
         Resolve(library, "hipSetDeviceFlags", &amd.set_device_flags) &&
         Resolve(library, "hipSetDevice", &amd.set_device) &&
         Resolve(library, "hipGetDeviceProperties", &amd.get_device_properties) &&
         Resolve(library, "hipDeviceGetUuid", &amd.device_get_uuid) &&
         Resolve(library, "hipDeviceGetAttribute", &amd.device_get_attribute) &&
         Resolve(library, "hipHostMalloc", &amd.host_malloc) &&
         Resolve(library, "hipHostGetDevicePointer", &amd.host_get_device_pointer) &&
         Resolve(library, "hipStreamCreateWithFlags", &amd.stream_create_with_flags) &&
         Resolve(library, "hipEventCreateWithFlags", &amd.event_create_with_flags) &&
         Resolve(library, "hipModuleLaunchKernel", &amd.module_launch_kernel);
}

bool ResolveTable(void* library, HipTable* table) {
  return Resolve(library, "hipGetErrorName", &table->error_name) &&
         Resolve(library, "hipGetErrorString", &table->error_string) &&
         Resolve(library, "hipGetDeviceCount", &table->device_count) &&
         Resolve(library, "hipRuntimeGetVersion", &table->runtime_version) &&
         Resolve(library, "hipSetDevice", &table->set_device) &&
         Resolve(library, "hipDeviceReset", &table->reset_device) &&
         Resolve(library, "hipModuleLoadData", &table->module_load_data) &&
         Resolve(library, "hipModuleUnload", &table->module_unload) &&
         Resolve(library, "hipModuleGetFunction", &table->module_get_function) &&
         Resolve(library, "hipFuncGetAttribute", &table->func_get_attribute) &&
         Resolve(library, "hipMalloc", &table->malloc) &&
         Resolve(library, "hipFree", &table->free) &&
         Resolve(library, "hipHostFree", &table->host_free) &&
         Resolve(library, "hipMemcpyHtoDAsync", &table->memcpy_htod_async) &&
         Resolve(library, "hipMemcpyDtoHAsync", &table->memcpy_dtoh_async) &&
         Resolve(library, "hipMemcpyDtoDAsync", &table->memcpy_dtod_async) &&
         Resolve(library, "hipMemsetD8Async", &table->memset_d8_async) &&
         Resolve(library, "hipMemsetD16Async", &table->memset_d16_async) &&
         Resolve(library, "hipMemsetD32Async", &table->memset_d32_async) &&
         Resolve(library, "hipStreamDestroy", &table->stream_destroy) &&
         Resolve(library, "hipEventDestroy", &table->event_destroy) &&
         Resolve(library, "hipEventRecord", &table->event_record) &&
         Resolve(library, "hipEventQuery", &table->event_query) &&
         Resolve(library, "hipEventSynchronize", &table->event_synchronize);
}

HipResult DeviceProperties(int device, HipDeviceProperties* properties) {
  hipDeviceProp_t raw{};
  const hipError_t result = amd.get_device_properties(&raw, device);
  if (result != hipSuccess) return result;
  properties->name = raw.name;
  properties->architecture = raw.gcnArchName;
  properties->pci_domain = static_cast<uint32_t>(raw.pciDomainID);
  properties->pci_bus = static_cast<uint32_t>(raw.pciBusID);
  properties->pci_device = static_cast<uint32_t>(raw.pciDeviceID);
  properties->memory_bytes = raw.totalGlobalMem;
  properties->shared_bytes = raw.sharedMemPerBlock;
  properties->max_threads = static_cast<uint32_t>(raw.maxThreadsPerBlock);
  for (int i = 0; i < 3; ++i) {
    properties->max_block[i] = static_cast<uint32_t>(raw.maxThreadsDim[i]);
    properties->max_grid[i] = static_cast<uint64_t>(raw.maxGridSize[i]);
  }
  properties->compute_units = static_cast<uint32_t>(raw.multiProcessorCount);
  properties->compute_mode = raw.computeMode;
  hipUUID uuid{};
  // AMD's uuid is 16 printable characters.
  if (amd.device_get_uuid(&uuid, device) == hipSuccess) {
    properties->uuid = absl::StrCat("GPU-", std::string(uuid.bytes, strnlen(uuid.bytes, 16)));
  }
  return kHipSuccess;
}

absl::StatusOr<const HipTable*> Open() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return MakeError(v1::BACKEND_UNAVAILABLE, absl::StrCat(kLibrary, " not found"));
  }
  static HipTable table;
  table.platform = "AMD";
  if (!ResolveOwn(library) || !ResolveTable(library, &table)) {
    return MakeError(v1::BACKEND_UNAVAILABLE,
                     absl::StrCat(kLibrary, " lacks functions of ROCm 5.2"));
  }
  table.init = []() -> HipResult { return amd.init(0); };
  table.device_properties = DeviceProperties;
  table.prepare_device = [](int device) -> HipResult {
    const hipError_t result = amd.set_device(device);
    return result != hipSuccess ? result : amd.set_device_flags(hipDeviceScheduleBlockingSync);
  };
  table.device_max_shared = [](int* bytes, int device) -> HipResult {
    return amd.device_get_attribute(bytes, hipDeviceAttributeMaxSharedMemoryPerBlock, device);
  };
  table.host_malloc = [](void** host, size_t bytes) -> HipResult {
    return amd.host_malloc(host, bytes, hipHostMallocPortable | hipHostMallocMapped);
  };
  table.host_get_device_pointer = [](HipAddress* address, void* host) -> HipResult {
    return amd.host_get_device_pointer(reinterpret_cast<void**>(address), host, 0);
  };
  table.stream_create = [](void** stream) -> HipResult {
    return amd.stream_create_with_flags(reinterpret_cast<hipStream_t*>(stream),
                                        hipStreamNonBlocking);
  };
  table.event_create = [](void** event) -> HipResult {
    return amd.event_create_with_flags(reinterpret_cast<hipEvent_t*>(event),
                                       hipEventBlockingSync | hipEventDisableTiming);
  };
  table.launch_kernel = [](void* function, const uint32_t(&grid)[3], const uint32_t(&block)[3],
                           uint32_t shared_bytes, void* stream, void** parameters) -> HipResult {
    return amd.module_launch_kernel(static_cast<hipFunction_t>(function), grid[0], grid[1], grid[2],
                                    block[0], block[1], block[2], shared_bytes,
                                    static_cast<hipStream_t>(stream), parameters, nullptr);
  };
  return &table;
}

}  // namespace

absl::StatusOr<const HipTable*> LoadAmdHip() {
  static const auto* const result = new absl::StatusOr<const HipTable*>(Open());
  return *result;
}

}  // namespace kcache::backend::hip
