// The HIP functions that the backend calls, with types that no HIP header defines: the headers of
// its two platforms, AMD and NVIDIA, declare the same names differently and cannot meet in one
// file. Each platform has one source file that fills the table.
//
// Results are hipError_t numbers, which both platforms share.
//
// Threads: after it was filled, any. Ownership: lives until the process ends; libraries stay open.
#ifndef KCACHE_BACKENDS_HIP_HIP_TABLE_H_
#define KCACHE_BACKENDS_HIP_HIP_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::hip {

using HipResult = int;
using HipAddress = uint64_t;

enum : HipResult {
  kHipSuccess = 0,
  kHipErrorInvalidValue = 1,
  kHipErrorOutOfMemory = 2,
  kHipErrorDeinitialized = 4,
  kHipErrorInvalidConfiguration = 9,
  kHipErrorInsufficientDriver = 35,
  kHipErrorPriorLaunchFailure = 53,
  kHipErrorNoDevice = 100,
  kHipErrorInvalidDevice = 101,
  kHipErrorInvalidImage = 200,
  kHipErrorInvalidContext = 201,
  kHipErrorNoBinaryForGpu = 209,
  kHipErrorEccNotCorrectable = 214,
  kHipErrorInvalidKernelFile = 218,
  kHipErrorNotFound = 500,
  kHipErrorNotReady = 600,
  kHipErrorIllegalAddress = 700,
  kHipErrorLaunchTimeOut = 702,
  kHipErrorContextIsDestroyed = 709,
  kHipErrorAssert = 710,
  kHipErrorLaunchFailure = 719,
  kHipErrorUnknown = 999,
  kHipErrorRuntimeMemory = 1052,
  kHipErrorRuntimeOther = 1053,
};

// hipFunction_attribute, numbered as CUDA numbers them.
enum HipFunctionAttribute : int {
  kHipFunctionMaxThreadsPerBlock = 0,
  kHipFunctionSharedSizeBytes = 1,
  kHipFunctionLocalSizeBytes = 3,
  kHipFunctionNumRegs = 4,
};

// Of a device of AMD's; NVIDIA's are described by backends/nvidia/device_probe.h.
struct HipDeviceProperties {
  std::string name;
  std::string architecture;  // "gfx90a:sramecc+:xnack-"
  std::string uuid;
  uint32_t pci_domain = 0, pci_bus = 0, pci_device = 0;
  uint64_t memory_bytes = 0;
  uint64_t shared_bytes = 0;  // a block's
  uint32_t max_threads = 0;
  uint32_t max_block[3] = {};
  uint64_t max_grid[3] = {};
  uint32_t compute_units = 0;
  int compute_mode = 0;
};

struct HipTable {
  std::string_view platform;  // "AMD" or "NVIDIA"

  const char* (*error_name)(HipResult) = nullptr;
  const char* (*error_string)(HipResult) = nullptr;
  HipResult (*init)() = nullptr;
  HipResult (*device_count)(int*) = nullptr;
  HipResult (*device_properties)(int device, HipDeviceProperties*) = nullptr;  // null: NVIDIA
  HipResult (*runtime_version)(int*) = nullptr;
  // Makes `device`'s context current on the calling thread, with blocking waits where there is a
  // choice.
  HipResult (*set_device)(int) = nullptr;
  HipResult (*prepare_device)(int) = nullptr;  // once, before set_device
  HipResult (*reset_device)() = nullptr;       // destroys the context of the current device

  HipResult (*module_load_data)(void** module, const void* image) = nullptr;
  HipResult (*module_unload)(void* module) = nullptr;
  HipResult (*module_get_function)(void** function, void* module, const char* name) = nullptr;
  HipResult (*func_get_attribute)(int* value, HipFunctionAttribute, void* function) = nullptr;
  // Null where dynamic shared memory has no limit of its own to raise (AMD).
  HipResult (*func_set_max_dynamic_shared)(void* function, int bytes) = nullptr;
  HipResult (*device_max_shared)(int* bytes, int device) = nullptr;

  HipResult (*malloc)(HipAddress*, size_t) = nullptr;
  HipResult (*free)(HipAddress) = nullptr;
  HipResult (*host_malloc)(void**, size_t) = nullptr;  // page-locked and mapped
  HipResult (*host_free)(void*) = nullptr;
  HipResult (*host_get_device_pointer)(HipAddress*, void*) = nullptr;
  HipResult (*memcpy_htod_async)(HipAddress, const void*, size_t, void* stream) = nullptr;
  HipResult (*memcpy_dtoh_async)(void*, HipAddress, size_t, void* stream) = nullptr;
  HipResult (*memcpy_dtod_async)(HipAddress, HipAddress, size_t, void* stream) = nullptr;
  HipResult (*memset_d8_async)(HipAddress, unsigned char, size_t, void* stream) = nullptr;
  HipResult (*memset_d16_async)(HipAddress, unsigned short, size_t, void* stream) = nullptr;
  HipResult (*memset_d32_async)(HipAddress, int, size_t, void* stream) = nullptr;

  HipResult (*stream_create)(void**) = nullptr;  // does not wait for the default stream
  HipResult (*stream_destroy)(void*) = nullptr;
  HipResult (*event_create)(void**) = nullptr;  // blocking waits, no timing
  HipResult (*event_destroy)(void*) = nullptr;
  HipResult (*event_record)(void* event, void* stream) = nullptr;
  HipResult (*event_query)(void*) = nullptr;
  HipResult (*event_synchronize)(void*) = nullptr;
  HipResult (*launch_kernel)(void* function, const uint32_t (&grid)[3], const uint32_t (&block)[3],
                             uint32_t shared_bytes, void* stream, void** parameters) = nullptr;
};

// libamdhip64.so.5. BACKEND_UNAVAILABLE: "libamdhip64.so.5 not found".
absl::StatusOr<const HipTable*> LoadAmdHip();

// HIP's NVIDIA platform over libcuda.so.1. BACKEND_UNAVAILABLE when this build has none of it, or
// when the driver is not there.
absl::StatusOr<const HipTable*> LoadNvidiaHip();

// A failure as a status, as nvidia/driver_table.h does it for CUDA.
absl::Status HipError(const HipTable& hip, HipResult result, std::string_view what,
                      v1::ErrorReason otherwise = v1::INTERNAL);

}  // namespace kcache::backend::hip

#endif  // KCACHE_BACKENDS_HIP_HIP_TABLE_H_
