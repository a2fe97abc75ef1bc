// HIP on NVIDIA's GPUs: the inline functions of HIP's NVIDIA headers over CUDA 12. Built only with
// KCACHE_HIP_NVIDIA. The CUDA runtime is linked statically and opens libcuda.so.1 by itself; what
// the headers call of the driver directly is forwarded to the table that backends/nvidia opens.
#define __HIP_PLATFORM_NVIDIA__ 1  // NOLINT(bugprone-reserved-identifier): what HIP's headers read
#include <cuda_runtime_api.h>

// HIP's headers have wrappers, which nobody calls, of functions that CUDA 12 no longer declares.
struct textureReference;
cudaError_t cudaBindTexture(size_t*, const textureReference*, const void*,
                            const cudaChannelFormatDesc*, size_t);
cudaError_t cudaBindTexture2D(size_t*, const textureReference*, const void*,
                              const cudaChannelFormatDesc*, size_t, size_t, size_t);
cudaError_t cudaGetTextureAlignmentOffset(size_t*, const textureReference*);

#include <hip/hip_runtime_api.h>

#include "backends/hip/hip_table.h"
#include "backends/nvidia/driver_table.h"

namespace kcache::backend::hip {
namespace {

static_assert(sizeof(hipDeviceptr_t) == sizeof(HipAddress));

absl::StatusOr<const HipTable*> Open() {
  absl::StatusOr<const nvidia::DriverTable*> driver = nvidia::LoadDriver();
  if (!driver.ok()) return driver.status();
  static HipTable table;
  table.platform = "NVIDIA";
  table.error_name = [](HipResult result) { return hipGetErrorName(hipError_t(result)); };
  table.error_string = [](HipResult result) { return hipGetErrorString(hipError_t(result)); };
  table.init = []() -> HipResult { return hipInit(0); };
  table.device_count = [](int* count) -> HipResult { return hipGetDeviceCount(count); };
  table.runtime_version = [](int* version) -> HipResult { return hipRuntimeGetVersion(version); };
  table.prepare_device = [](int device) -> HipResult {
    const hipError_t result = hipSetDevice(device);
    return result != hipSuccess ? result : hipSetDeviceFlags(hipDeviceScheduleBlockingSync);
  };
  table.set_device = [](int device) -> HipResult { return hipSetDevice(device); };
  table.reset_device = []() -> HipResult { return hipDeviceReset(); };
  table.module_load_data = [](void** module, const void* image) -> HipResult {
    return hipModuleLoadData(reinterpret_cast<hipModule_t*>(module), image);
  };
  table.module_unload = [](void* module) -> HipResult {
    return hipModuleUnload(static_cast<hipModule_t>(module));
  };
  table.module_get_function = [](void** function, void* module, const char* name) -> HipResult {
    return hipModuleGetFunction(reinterpret_cast<hipFunction_t*>(function),
                                static_cast<hipModule_t>(module), name);
  };
  table.func_get_attribute = [](int* value, HipFunctionAttribute attribute,
                                void* function) -> HipResult {
    return hipFuncGetAttribute(value, static_cast<hipFunction_attribute>(attribute),
                               static_cast<hipFunction_t>(function));
  };
  // hipFuncSetAttribute takes a host function here; a module's function is the driver's.
  table.func_set_max_dynamic_shared = [](void* function, int bytes) -> HipResult {
    return hipCUResultTohipError(cuFuncSetAttribute(
        static_cast<CUfunction>(function), CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bytes));
  };
  table.device_max_shared = [](int* bytes, int device) -> HipResult {
    return hipCUDAErrorTohipError(
        cudaDeviceGetAttribute(bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  };
  table.malloc = [](HipAddress* address, size_t bytes) -> HipResult {
    return hipMalloc(reinterpret_cast<void**>(address), bytes);
  };
  table.free = [](HipAddress address) -> HipResult {
    return hipFree(reinterpret_cast<void*>(address));  // NOLINT(performance-no-int-to-ptr)
  };
  table.host_malloc = [](void** host, size_t bytes) -> HipResult {
    return hipHostMalloc(host, bytes, hipHostMallocPortable | hipHostMallocMapped);
  };
  table.host_free = [](void* host) -> HipResult { return hipHostFree(host); };
  table.host_get_device_pointer = [](HipAddress* address, void* host) -> HipResult {
    return hipHostGetDevicePointer(reinterpret_cast<void**>(address), host, 0);
  };
  table.memcpy_htod_async = [](HipAddress to, const void* from, size_t bytes,
                               void* stream) -> HipResult {
    return hipMemcpyHtoDAsync(to, const_cast<void*>(from), bytes, static_cast<hipStream_t>(stream));
  };
  table.memcpy_dtoh_async = [](void* to, HipAddress from, size_t bytes, void* stream) -> HipResult {
    return hipMemcpyDtoHAsync(to, from, bytes, static_cast<hipStream_t>(stream));
  };
  table.memcpy_dtod_async = [](HipAddress to, HipAddress from, size_t bytes,
                               void* stream) -> HipResult {
    return hipMemcpyDtoDAsync(to, from, bytes, static_cast<hipStream_t>(stream));
  };
  table.memset_d8_async = [](HipAddress to, unsigned char value, size_t count,
                             void* stream) -> HipResult {
    return hipMemsetD8Async(to, value, count, static_cast<hipStream_t>(stream));
  };
  table.memset_d16_async = [](HipAddress to, unsigned short value, size_t count,
                              void* stream) -> HipResult {
    return hipMemsetD16Async(to, value, count, static_cast<hipStream_t>(stream));
  };
  table.memset_d32_async = [](HipAddress to, int value, size_t count, void* stream) -> HipResult {
    return hipMemsetD32Async(to, value, count, static_cast<hipStream_t>(stream));
  };
  table.stream_create = [](void** stream) -> HipResult {
    return hipStreamCreateWithFlags(reinterpret_cast<hipStream_t*>(stream), hipStreamNonBlocking);
  };
  table.stream_destroy = [](void* stream) -> HipResult {
    return hipStreamDestroy(static_cast<hipStream_t>(stream));
  };
  table.event_create = [](void** event) -> HipResult {
    return hipEventCreateWithFlags(reinterpret_cast<hipEvent_t*>(event),
                                   hipEventBlockingSync | hipEventDisableTiming);
  };
  table.event_destroy = [](void* event) -> HipResult {
    return hipEventDestroy(static_cast<hipEvent_t>(event));
  };
  table.event_record = [](void* event, void* stream) -> HipResult {
    return hipEventRecord(static_cast<hipEvent_t>(event), static_cast<hipStream_t>(stream));
  };
  table.event_query = [](void* event) -> HipResult {
    return hipEventQuery(static_cast<hipEvent_t>(event));
  };
  table.event_synchronize = [](void* event) -> HipResult {
    return hipEventSynchronize(static_cast<hipEvent_t>(event));
  };
  table.launch_kernel = [](void* function, const uint32_t(&grid)[3], const uint32_t(&block)[3],
                           uint32_t shared_bytes, void* stream, void** parameters) -> HipResult {
    return hipModuleLaunchKernel(static_cast<hipFunction_t>(function), grid[0], grid[1], grid[2],
                                 block[0], block[1], block[2], shared_bytes,
                                 static_cast<hipStream_t>(stream), parameters, nullptr);
  };
  return &table;
}

}  // namespace

absl::StatusOr<const HipTable*> LoadNvidiaHip() {
  static const auto* const result = new absl::StatusOr<const HipTable*>(Open());
  return *result;
}

}  // namespace kcache::backend::hip
