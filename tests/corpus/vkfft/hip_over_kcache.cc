// As much of HIP and hipRTC as VkFFT calls, under their names, on top of runtime_over_kcache.h.
// VkFFT itself is unchanged and links this in the place of AMD's libraries.

#include <hip/hip_runtime_api.h>
#include <hip/hiprtc.h>

#include <cstring>
#include <string>

#include "tests/corpus/vkfft/runtime_over_kcache.h"

using kcache::corpus::RuntimeFunction;
using kcache::corpus::RuntimeMemory;
using kcache::corpus::RuntimeModule;
using kcache::corpus::RuntimeOverKcache;

struct _hiprtcProgram {
  std::string source;
};

namespace {

RuntimeOverKcache& Runtime() { return *RuntimeOverKcache::current(); }

hipError_t Answer(const absl::Status& status, hipError_t failure) {
  return Runtime().Succeeded(status) ? hipSuccess : failure;
}

}  // namespace

extern "C" {

// ---- the runtime

hipError_t hipDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int) {
  const kcache::DeviceLimits& limits = Runtime().limits();
  const auto give = [&](uint64_t number) {
    *value = static_cast<int>(number);
    return hipSuccess;
  };
  switch (attribute) {
    case hipDeviceAttributeMaxThreadsPerBlock:
      return give(limits.max_local_size);
    case hipDeviceAttributeMaxBlockDimX:
      return give(limits.max_local_dims.x);
    case hipDeviceAttributeMaxBlockDimY:
      return give(limits.max_local_dims.y);
    case hipDeviceAttributeMaxBlockDimZ:
      return give(limits.max_local_dims.z);
    case hipDeviceAttributeMaxGridDimX:
      return give(limits.max_grid_x);
    case hipDeviceAttributeMaxGridDimY:
      return give(limits.max_grid_y);
    case hipDeviceAttributeMaxGridDimZ:
      return give(limits.max_grid_z);
    case hipDeviceAttributeMaxSharedMemoryPerBlock:
      return give(limits.local_memory_bytes);
    case hipDeviceAttributeWarpSize:
      return give(static_cast<uint64_t>(Runtime().warp_size()));
    default:
      return hipErrorInvalidValue;
  }
}

hipError_t hipDeviceSynchronize() { return Answer(Runtime().Synchronize(), hipErrorLaunchFailure); }

hipError_t hipMalloc(void** memory, size_t bytes) {
  auto made = Runtime().Allocate(bytes);
  if (made.ok()) *memory = *made;
  return Answer(made.status(), hipErrorOutOfMemory);
}

hipError_t hipFree(void* memory) {
  Runtime().Release(static_cast<RuntimeMemory*>(memory));
  return hipSuccess;
}

hipError_t hipMemcpy(void* to, const void* from, size_t bytes, hipMemcpyKind kind) {
  if (kind != hipMemcpyHostToDevice) return hipErrorInvalidValue;  // VkFFT makes no other
  return Answer(Runtime().Write(static_cast<RuntimeMemory*>(to), from, bytes),
                hipErrorLaunchFailure);
}

hipError_t hipModuleLoadDataEx(hipModule_t* module, const void* image, unsigned int, hipJitOption*,
                               void**) {
  *module = reinterpret_cast<hipModule_t>(Runtime().Load(static_cast<const char*>(image)));
  return hipSuccess;
}

hipError_t hipModuleUnload(hipModule_t module) {
  Runtime().Unload(reinterpret_cast<RuntimeModule*>(module));
  return hipSuccess;
}

hipError_t hipModuleGetFunction(hipFunction_t* function, hipModule_t module, const char* name) {
  auto made = Runtime().Function(reinterpret_cast<RuntimeModule*>(module), name);
  if (made.ok()) *function = reinterpret_cast<hipFunction_t>(*made);
  return Answer(made.status(), hipErrorNotFound);
}

// VkFFT's programs have a global where a launch is split, or an offset is given with it.
hipError_t hipModuleGetGlobal(hipDeviceptr_t*, size_t*, hipModule_t, const char* name) {
  return Answer(absl::UnimplementedError(std::string("the global ") + name), hipErrorNotSupported);
}

hipError_t hipMemcpyHtoD(hipDeviceptr_t, void*, size_t) {
  return Answer(absl::UnimplementedError("a copy to a global"), hipErrorNotSupported);
}

// A launch says how much it takes, and that is set then.
hipError_t hipFuncSetAttribute(const void*, hipFuncAttribute, int) { return hipSuccess; }

hipError_t hipModuleLaunchKernel(hipFunction_t function, unsigned int grid_x, unsigned int grid_y,
                                 unsigned int grid_z, unsigned int block_x, unsigned int block_y,
                                 unsigned int block_z, unsigned int shared_bytes, hipStream_t,
                                 void** arguments, void**) {
  return Answer(
      Runtime().Launch(*reinterpret_cast<RuntimeFunction*>(function), {grid_x, grid_y, grid_z},
                       {block_x, block_y, block_z}, shared_bytes, arguments),
      hipErrorLaunchFailure);
}

// Events order several streams; here VkFFT is given none.
hipError_t hipEventCreate(hipEvent_t*) { return hipErrorNotSupported; }
hipError_t hipEventDestroy(hipEvent_t) { return hipErrorNotSupported; }
hipError_t hipEventRecord(hipEvent_t, hipStream_t) { return hipErrorNotSupported; }
hipError_t hipEventSynchronize(hipEvent_t) { return hipErrorNotSupported; }

// ---- hipRTC

const char* hiprtcGetErrorString(hiprtcResult) { return "see the failure that is reported"; }

hiprtcResult hiprtcCreateProgram(hiprtcProgram* program, const char* source, const char*, int,
                                 const char**, const char**) {
  *program = new _hiprtcProgram{source};
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcDestroyProgram(hiprtcProgram* program) {
  delete *program;
  *program = nullptr;
  return HIPRTC_SUCCESS;
}

// Only for a global, which hipModuleGetGlobal refuses.
hiprtcResult hiprtcAddNameExpression(hiprtcProgram, const char*) { return HIPRTC_SUCCESS; }

hiprtcResult hiprtcCompileProgram(hiprtcProgram, int, const char**) { return HIPRTC_SUCCESS; }

hiprtcResult hiprtcGetProgramLog(hiprtcProgram, char* log) {
  *log = '\0';
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcGetCodeSize(hiprtcProgram program, size_t* bytes) {
  *bytes = program->source.size() + 1;
  return HIPRTC_SUCCESS;
}

hiprtcResult hiprtcGetCode(hiprtcProgram program, char* code) {
  std::memcpy(code, program->source.c_str(), program->source.size() + 1);
  return HIPRTC_SUCCESS;
}

}  // extern "C"
