// As much of CUDA's driver API, runtime API and NVRTC as VkFFT calls, under their names, on top of
// runtime_over_kcache.h. VkFFT itself is unchanged and links this in the place of NVIDIA's
// libraries.

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <nvrtc.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "tests/corpus/vkfft/runtime_over_kcache.h"

using kcache::corpus::RuntimeFunction;
using kcache::corpus::RuntimeMemory;
using kcache::corpus::RuntimeModule;
using kcache::corpus::RuntimeOverKcache;

struct _nvrtcProgram {
  std::string source;
};

namespace {

constexpr uint64_t kStaticSharedBytes = 48 << 10;  // more of it has to be asked for

RuntimeOverKcache& Runtime() { return *RuntimeOverKcache::current(); }

template <class Result>
Result Answer(const absl::Status& status, Result success, Result failure) {
  return Runtime().Succeeded(status) ? success : failure;
}

}  // namespace

extern "C" {

// ---- the driver API

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  const kcache::DeviceLimits& limits = Runtime().limits();
  const auto give = [&](uint64_t number) {
    *value = static_cast<int>(number);
    return CUDA_SUCCESS;
  };
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      return give(limits.max_local_size);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
      return give(limits.max_local_dims.x);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
      return give(limits.max_local_dims.y);
    case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
      return give(limits.max_local_dims.z);
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
      return give(limits.max_grid_x);
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
      return give(limits.max_grid_y);
    case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
      return give(limits.max_grid_z);
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
      return give(std::min(limits.local_memory_bytes, kStaticSharedBytes));
    case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
      return give(limits.local_memory_bytes);
    case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
      return give(static_cast<uint64_t>(Runtime().warp_size()));
  }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuModuleLoadDataEx(CUmodule* module, const void* image, unsigned int, CUjit_option*,
                            void**) {
  *module = reinterpret_cast<CUmodule>(Runtime().Load(static_cast<const char*>(image)));
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  Runtime().Unload(reinterpret_cast<RuntimeModule*>(module));
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  auto made = Runtime().Function(reinterpret_cast<RuntimeModule*>(module), name);
  if (made.ok()) *function = reinterpret_cast<CUfunction>(*made);
  return Answer(made.status(), CUDA_SUCCESS, CUDA_ERROR_NOT_FOUND);
}

// VkFFT's programs have a global where a launch is split, or an offset is given with it.
CUresult cuModuleGetGlobal(CUdeviceptr*, size_t*, CUmodule, const char* name) {
  return Answer(absl::UnimplementedError(std::string("the global ") + name), CUDA_SUCCESS,
                CUDA_ERROR_NOT_SUPPORTED);
}

CUresult cuMemcpyHtoD(CUdeviceptr, const void*, size_t) {
  return Answer(absl::UnimplementedError("a copy to a global"), CUDA_SUCCESS,
                CUDA_ERROR_NOT_SUPPORTED);
}

// A launch says how much it takes, and that is set then.
CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }

CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y,
                        unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                        unsigned int block_z, unsigned int shared_bytes, CUstream, void** arguments,
                        void**) {
  return Answer(
      Runtime().Launch(*reinterpret_cast<RuntimeFunction*>(function), {grid_x, grid_y, grid_z},
                       {block_x, block_y, block_z}, shared_bytes, arguments),
      CUDA_SUCCESS, CUDA_ERROR_LAUNCH_FAILED);
}

// ---- the runtime API

cudaError_t cudaMalloc(void** memory, size_t bytes) {
  auto made = Runtime().Allocate(bytes);
  if (made.ok()) *memory = *made;
  return Answer(made.status(), cudaSuccess, cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* memory) {
  Runtime().Release(static_cast<RuntimeMemory*>(memory));
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  if (kind != cudaMemcpyHostToDevice) return cudaErrorInvalidValue;  // VkFFT makes no other
  return Answer(Runtime().Write(static_cast<RuntimeMemory*>(to), from, bytes), cudaSuccess,
                cudaErrorLaunchFailure);
}

cudaError_t cudaDeviceSynchronize() {
  return Answer(Runtime().Synchronize(), cudaSuccess, cudaErrorLaunchFailure);
}

// Events order several streams; here VkFFT is given none.
cudaError_t cudaEventCreate(cudaEvent_t*) { return cudaErrorNotSupported; }
cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaErrorNotSupported; }
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaErrorNotSupported; }

// ---- NVRTC

const char* nvrtcGetErrorString(nvrtcResult) { return "see the failure that is reported"; }

nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char*, int,
                               const char* const*, const char* const*) {
  *program = new _nvrtcProgram{source};
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program) {
  delete *program;
  *program = nullptr;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcCompileProgram(nvrtcProgram, int, const char* const*) { return NVRTC_SUCCESS; }

nvrtcResult nvrtcGetProgramLog(nvrtcProgram, char* log) {
  *log = '\0';
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes) {
  *bytes = program->source.size() + 1;
  return NVRTC_SUCCESS;
}

nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx) {
  std::memcpy(ptx, program->source.c_str(), program->source.size() + 1);
  return NVRTC_SUCCESS;
}

}  // extern "C"
