// The part of the CUDA driver's ABI that the backends use, declared here so that building them
// needs no CUDA header. Names and values are those of NVIDIA's cuda.h; driver_abi_test.cc compares
// them with that header where one is installed.
#ifndef KCACHE_BACKENDS_NVIDIA_DRIVER_ABI_H_
#define KCACHE_BACKENDS_NVIDIA_DRIVER_ABI_H_

#include <cstddef>
#include <cstdint>

namespace kcache::backend::nvidia {

using CuResult = int;
using CuDevice = int;
using CuContext = void*;
using CuModule = void*;
using CuFunction = void*;
using CuStream = void*;
using CuEvent = void*;
using CuDevicePtr = unsigned long long;  // NOLINT(google-runtime-int): as the ABI has it

struct CuUuid {
  unsigned char bytes[16];
};

// CUresult
enum : CuResult {
  kCudaSuccess = 0,
  kCudaErrorInvalidValue = 1,
  kCudaErrorOutOfMemory = 2,
  kCudaErrorNotInitialized = 3,
  kCudaErrorDeinitialized = 4,
  kCudaErrorStubLibrary = 34,
  kCudaErrorDeviceUnavailable = 46,
  kCudaErrorNoDevice = 100,
  kCudaErrorInvalidDevice = 101,
  kCudaErrorInvalidImage = 200,
  kCudaErrorInvalidContext = 201,
  kCudaErrorNoBinaryForGpu = 209,
  kCudaErrorEccUncorrectable = 214,
  kCudaErrorInvalidPtx = 218,
  kCudaErrorNvlinkUncorrectable = 220,
  kCudaErrorJitCompilerNotFound = 221,
  kCudaErrorUnsupportedPtxVersion = 222,
  kCudaErrorJitCompilationDisabled = 223,
  kCudaErrorContained = 226,
  kCudaErrorNotFound = 500,
  kCudaErrorNotReady = 600,
  kCudaErrorIllegalAddress = 700,
  kCudaErrorLaunchOutOfResources = 701,
  kCudaErrorLaunchTimeout = 702,
  kCudaErrorContextIsDestroyed = 709,
  kCudaErrorAssert = 710,
  kCudaErrorHardwareStackError = 714,
  kCudaErrorIllegalInstruction = 715,
  kCudaErrorMisalignedAddress = 716,
  kCudaErrorInvalidAddressSpace = 717,
  kCudaErrorInvalidPc = 718,
  kCudaErrorLaunchFailed = 719,
  kCudaErrorTensorMemoryLeak = 721,
  kCudaErrorNotSupported = 801,
  kCudaErrorSystemNotReady = 802,
  kCudaErrorSystemDriverMismatch = 803,
  kCudaErrorMpsConnectionFailed = 805,
  kCudaErrorMpsRpcFailure = 806,
  kCudaErrorMpsServerNotReady = 807,
  kCudaErrorMpsMaxClientsReached = 808,
  kCudaErrorMpsMaxConnectionsReached = 809,
  kCudaErrorMpsClientTerminated = 810,
  kCudaErrorExternalDevice = 911,
  kCudaErrorUnknown = 999,
};

// CUdevice_attribute
enum CuDeviceAttribute : int {
  kAttributeMaxThreadsPerBlock = 1,
  kAttributeMaxBlockDimX = 2,
  kAttributeMaxBlockDimY = 3,
  kAttributeMaxBlockDimZ = 4,
  kAttributeMaxGridDimX = 5,
  kAttributeMaxGridDimY = 6,
  kAttributeMaxGridDimZ = 7,
  kAttributeMaxSharedMemoryPerBlock = 8,
  kAttributeMultiprocessorCount = 16,
  kAttributeComputeMode = 20,
  kAttributePciBusId = 33,
  kAttributePciDeviceId = 34,
  kAttributePciDomainId = 50,
  kAttributeComputeCapabilityMajor = 75,
  kAttributeComputeCapabilityMinor = 76,
  kAttributeMaxSharedMemoryPerBlockOptin = 97,
  kAttributeMpsEnabled = 133,
};

// CUcomputemode
enum : int {
  kComputeModeDefault = 0,
  kComputeModeProhibited = 2,
  kComputeModeExclusiveProcess = 3
};

// CUfunction_attribute
enum CuFunctionAttribute : int {
  kFunctionMaxThreadsPerBlock = 0,
  kFunctionSharedSizeBytes = 1,
  kFunctionLocalSizeBytes = 3,
  kFunctionNumRegs = 4,
  kFunctionMaxDynamicSharedSizeBytes = 8,
};

// CUjit_option
enum CuJitOption : int {
  kJitWallTime = 2,
  kJitInfoLogBuffer = 3,
  kJitInfoLogBufferSizeBytes = 4,
  kJitErrorLogBuffer = 5,
  kJitErrorLogBufferSizeBytes = 6,
};

constexpr unsigned kContextScheduleBlockingSync = 0x04;  // CU_CTX_SCHED_BLOCKING_SYNC
constexpr unsigned kStreamNonBlocking = 0x1;             // CU_STREAM_NON_BLOCKING
constexpr unsigned kEventBlockingSync = 0x1;             // CU_EVENT_BLOCKING_SYNC
constexpr unsigned kEventDisableTiming = 0x2;            // CU_EVENT_DISABLE_TIMING
constexpr unsigned kHostAllocPortable = 0x01;            // CU_MEMHOSTALLOC_PORTABLE
constexpr unsigned kHostAllocDeviceMap = 0x02;           // CU_MEMHOSTALLOC_DEVICEMAP

// Every function of libcuda.so.1 that is called: X(field, exported name, result and arguments).
// Exported names carry the version suffix that cuda.h's macros would add.
#define KCACHE_CUDA_DRIVER_FUNCTIONS(X)                                                            \
  X(get_error_name, "cuGetErrorName", CuResult(CuResult, const char**))                            \
  X(get_error_string, "cuGetErrorString", CuResult(CuResult, const char**))                        \
  X(init, "cuInit", CuResult(unsigned))                                                            \
  X(driver_get_version, "cuDriverGetVersion", CuResult(int*))                                      \
  X(device_get, "cuDeviceGet", CuResult(CuDevice*, int))                                           \
  X(device_get_count, "cuDeviceGetCount", CuResult(int*))                                          \
  X(device_get_name, "cuDeviceGetName", CuResult(char*, int, CuDevice))                            \
  X(device_get_uuid, "cuDeviceGetUuid", CuResult(CuUuid*, CuDevice))                               \
  X(device_total_mem, "cuDeviceTotalMem_v2", CuResult(size_t*, CuDevice))                          \
  X(device_get_attribute, "cuDeviceGetAttribute", CuResult(int*, CuDeviceAttribute, CuDevice))     \
  X(primary_ctx_retain, "cuDevicePrimaryCtxRetain", CuResult(CuContext*, CuDevice))                \
  X(primary_ctx_release, "cuDevicePrimaryCtxRelease_v2", CuResult(CuDevice))                       \
  X(primary_ctx_set_flags, "cuDevicePrimaryCtxSetFlags_v2", CuResult(CuDevice, unsigned))          \
  X(ctx_set_current, "cuCtxSetCurrent", CuResult(CuContext))                                       \
  X(ctx_synchronize, "cuCtxSynchronize", CuResult())                                               \
  X(module_load_data_ex, "cuModuleLoadDataEx",                                                     \
    CuResult(CuModule*, const void*, unsigned, CuJitOption*, void**))                              \
  X(module_unload, "cuModuleUnload", CuResult(CuModule))                                           \
  X(module_get_function, "cuModuleGetFunction", CuResult(CuFunction*, CuModule, const char*))      \
  X(func_get_attribute, "cuFuncGetAttribute", CuResult(int*, CuFunctionAttribute, CuFunction))     \
  X(func_set_attribute, "cuFuncSetAttribute", CuResult(CuFunction, CuFunctionAttribute, int))      \
  X(mem_get_info, "cuMemGetInfo_v2", CuResult(size_t*, size_t*))                                   \
  X(mem_alloc, "cuMemAlloc_v2", CuResult(CuDevicePtr*, size_t))                                    \
  X(mem_free, "cuMemFree_v2", CuResult(CuDevicePtr))                                               \
  X(mem_host_alloc, "cuMemHostAlloc", CuResult(void**, size_t, unsigned))                          \
  X(mem_free_host, "cuMemFreeHost", CuResult(void*))                                               \
  X(mem_host_get_device_pointer, "cuMemHostGetDevicePointer_v2",                                   \
    CuResult(CuDevicePtr*, void*, unsigned))                                                       \
  X(memcpy_htod_async, "cuMemcpyHtoDAsync_v2",                                                     \
    CuResult(CuDevicePtr, const void*, size_t, CuStream))                                          \
  X(memcpy_dtoh_async, "cuMemcpyDtoHAsync_v2", CuResult(void*, CuDevicePtr, size_t, CuStream))     \
  X(memcpy_dtod_async, "cuMemcpyDtoDAsync_v2",                                                     \
    CuResult(CuDevicePtr, CuDevicePtr, size_t, CuStream))                                          \
  X(memset_d8_async, "cuMemsetD8Async", CuResult(CuDevicePtr, unsigned char, size_t, CuStream))    \
  X(memset_d16_async, "cuMemsetD16Async", CuResult(CuDevicePtr, unsigned short, size_t, CuStream)) \
  X(memset_d32_async, "cuMemsetD32Async", CuResult(CuDevicePtr, unsigned, size_t, CuStream))       \
  X(stream_create, "cuStreamCreate", CuResult(CuStream*, unsigned))                                \
  X(stream_destroy, "cuStreamDestroy_v2", CuResult(CuStream))                                      \
  X(event_create, "cuEventCreate", CuResult(CuEvent*, unsigned))                                   \
  X(event_destroy, "cuEventDestroy_v2", CuResult(CuEvent))                                         \
  X(event_record, "cuEventRecord", CuResult(CuEvent, CuStream))                                    \
  X(event_query, "cuEventQuery", CuResult(CuEvent))                                                \
  X(event_synchronize, "cuEventSynchronize", CuResult(CuEvent))                                    \
  X(launch_kernel, "cuLaunchKernel",                                                               \
    CuResult(CuFunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,     \
             CuStream, void**, void**))

// Null where the driver is too old.
#define KCACHE_CUDA_DRIVER_OPTIONAL_FUNCTIONS(X)                                      \
  X(device_get_uuid_v2, "cuDeviceGetUuid_v2", CuResult(CuUuid*, CuDevice)) /* 11.4 */ \
  X(func_get_param_info, "cuFuncGetParamInfo",                                        \
    CuResult(CuFunction, size_t index, size_t* offset, size_t* size)) /* 12.4 */

}  // namespace kcache::backend::nvidia

#endif  // KCACHE_BACKENDS_NVIDIA_DRIVER_ABI_H_
