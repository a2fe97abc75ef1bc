// Compares driver_abi.h with NVIDIA's header, where a toolkit is installed.
#include "backends/nvidia/driver_abi.h"

#include <cuda.h>
#include <gtest/gtest.h>

namespace kcache::backend::nvidia {
namespace {

#define EXPECT_SAME(ours, theirs) \
  EXPECT_EQ(static_cast<long long>(ours), static_cast<long long>(theirs))

TEST(DriverAbi, SizesAreNvidias) {
  EXPECT_EQ(sizeof(CuResult), sizeof(CUresult));
  EXPECT_EQ(sizeof(CuDevice), sizeof(CUdevice));
  EXPECT_EQ(sizeof(CuDevicePtr), sizeof(CUdeviceptr));
  EXPECT_EQ(sizeof(CuUuid), sizeof(CUuuid));
  EXPECT_EQ(sizeof(CuDeviceAttribute), sizeof(CUdevice_attribute));
  EXPECT_EQ(sizeof(CuFunctionAttribute), sizeof(CUfunction_attribute));
  EXPECT_EQ(sizeof(CuJitOption), sizeof(CUjit_option));
}

TEST(DriverAbi, ErrorsAreNvidias) {
  EXPECT_SAME(kCudaErrorInvalidValue, CUDA_ERROR_INVALID_VALUE);
  EXPECT_SAME(kCudaErrorOutOfMemory, CUDA_ERROR_OUT_OF_MEMORY);
  EXPECT_SAME(kCudaErrorNotInitialized, CUDA_ERROR_NOT_INITIALIZED);
  EXPECT_SAME(kCudaErrorDeinitialized, CUDA_ERROR_DEINITIALIZED);
  EXPECT_SAME(kCudaErrorStubLibrary, CUDA_ERROR_STUB_LIBRARY);
  EXPECT_SAME(kCudaErrorDeviceUnavailable, CUDA_ERROR_DEVICE_UNAVAILABLE);
  EXPECT_SAME(kCudaErrorNoDevice, CUDA_ERROR_NO_DEVICE);
  EXPECT_SAME(kCudaErrorInvalidDevice, CUDA_ERROR_INVALID_DEVICE);
  EXPECT_SAME(kCudaErrorInvalidImage, CUDA_ERROR_INVALID_IMAGE);
  EXPECT_SAME(kCudaErrorInvalidContext, CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_SAME(kCudaErrorNoBinaryForGpu, CUDA_ERROR_NO_BINARY_FOR_GPU);
  EXPECT_SAME(kCudaErrorEccUncorrectable, CUDA_ERROR_ECC_UNCORRECTABLE);
  EXPECT_SAME(kCudaErrorInvalidPtx, CUDA_ERROR_INVALID_PTX);
  EXPECT_SAME(kCudaErrorNvlinkUncorrectable, CUDA_ERROR_NVLINK_UNCORRECTABLE);
  EXPECT_SAME(kCudaErrorJitCompilerNotFound, CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
  EXPECT_SAME(kCudaErrorUnsupportedPtxVersion, CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
  EXPECT_SAME(kCudaErrorJitCompilationDisabled, CUDA_ERROR_JIT_COMPILATION_DISABLED);
  EXPECT_SAME(kCudaErrorNotFound, CUDA_ERROR_NOT_FOUND);
  EXPECT_SAME(kCudaErrorNotReady, CUDA_ERROR_NOT_READY);
  EXPECT_SAME(kCudaErrorIllegalAddress, CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_SAME(kCudaErrorLaunchOutOfResources, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
  EXPECT_SAME(kCudaErrorLaunchTimeout, CUDA_ERROR_LAUNCH_TIMEOUT);
  EXPECT_SAME(kCudaErrorContextIsDestroyed, CUDA_ERROR_CONTEXT_IS_DESTROYED);
  EXPECT_SAME(kCudaErrorAssert, CUDA_ERROR_ASSERT);
  EXPECT_SAME(kCudaErrorHardwareStackError, CUDA_ERROR_HARDWARE_STACK_ERROR);
  EXPECT_SAME(kCudaErrorIllegalInstruction, CUDA_ERROR_ILLEGAL_INSTRUCTION);
  EXPECT_SAME(kCudaErrorMisalignedAddress, CUDA_ERROR_MISALIGNED_ADDRESS);
  EXPECT_SAME(kCudaErrorInvalidAddressSpace, CUDA_ERROR_INVALID_ADDRESS_SPACE);
  EXPECT_SAME(kCudaErrorInvalidPc, CUDA_ERROR_INVALID_PC);
  EXPECT_SAME(kCudaErrorLaunchFailed, CUDA_ERROR_LAUNCH_FAILED);
  EXPECT_SAME(kCudaErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED);
  EXPECT_SAME(kCudaErrorSystemNotReady, CUDA_ERROR_SYSTEM_NOT_READY);
  EXPECT_SAME(kCudaErrorSystemDriverMismatch, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
  EXPECT_SAME(kCudaErrorMpsConnectionFailed, CUDA_ERROR_MPS_CONNECTION_FAILED);
  EXPECT_SAME(kCudaErrorMpsRpcFailure, CUDA_ERROR_MPS_RPC_FAILURE);
  EXPECT_SAME(kCudaErrorMpsServerNotReady, CUDA_ERROR_MPS_SERVER_NOT_READY);
  EXPECT_SAME(kCudaErrorMpsMaxClientsReached, CUDA_ERROR_MPS_MAX_CLIENTS_REACHED);
  EXPECT_SAME(kCudaErrorMpsMaxConnectionsReached, CUDA_ERROR_MPS_MAX_CONNECTIONS_REACHED);
  EXPECT_SAME(kCudaErrorUnknown, CUDA_ERROR_UNKNOWN);
#if CUDA_VERSION >= 13000
  EXPECT_SAME(kCudaErrorContained, CUDA_ERROR_CONTAINED);
  EXPECT_SAME(kCudaErrorTensorMemoryLeak, CUDA_ERROR_TENSOR_MEMORY_LEAK);
#endif
  EXPECT_SAME(kCudaErrorMpsClientTerminated, CUDA_ERROR_MPS_CLIENT_TERMINATED);
  EXPECT_SAME(kCudaErrorExternalDevice, CUDA_ERROR_EXTERNAL_DEVICE);
}

TEST(DriverAbi, OptionsAndAttributesAreNvidias) {
  EXPECT_SAME(kAttributeMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT_SAME(kAttributeMaxBlockDimX, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
  EXPECT_SAME(kAttributeMaxBlockDimZ, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
  EXPECT_SAME(kAttributeMaxGridDimX, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
  EXPECT_SAME(kAttributeMaxGridDimZ, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
  EXPECT_SAME(kAttributeMultiprocessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  EXPECT_SAME(kAttributeComputeMode, CU_DEVICE_ATTRIBUTE_COMPUTE_MODE);
  EXPECT_SAME(kAttributePciBusId, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID);
  EXPECT_SAME(kAttributePciDeviceId, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID);
  EXPECT_SAME(kAttributePciDomainId, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID);
  EXPECT_SAME(kAttributeComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  EXPECT_SAME(kAttributeMaxSharedMemoryPerBlockOptin,
              CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
#if CUDA_VERSION >= 12050
  EXPECT_SAME(kAttributeMpsEnabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED);
#endif
  EXPECT_SAME(kComputeModeProhibited, CU_COMPUTEMODE_PROHIBITED);
  EXPECT_SAME(kComputeModeExclusiveProcess, CU_COMPUTEMODE_EXCLUSIVE_PROCESS);
  EXPECT_SAME(kFunctionMaxThreadsPerBlock, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  EXPECT_SAME(kFunctionSharedSizeBytes, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
  EXPECT_SAME(kFunctionLocalSizeBytes, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
  EXPECT_SAME(kFunctionNumRegs, CU_FUNC_ATTRIBUTE_NUM_REGS);
  EXPECT_SAME(kFunctionMaxDynamicSharedSizeBytes, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
  EXPECT_SAME(kJitErrorLogBuffer, CU_JIT_ERROR_LOG_BUFFER);
  EXPECT_SAME(kJitErrorLogBufferSizeBytes, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  EXPECT_SAME(kContextScheduleBlockingSync, CU_CTX_SCHED_BLOCKING_SYNC);
  EXPECT_SAME(kStreamNonBlocking, CU_STREAM_NON_BLOCKING);
  EXPECT_SAME(kEventBlockingSync, CU_EVENT_BLOCKING_SYNC);
  EXPECT_SAME(kEventDisableTiming, CU_EVENT_DISABLE_TIMING);
  EXPECT_SAME(kHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE);
  EXPECT_SAME(kHostAllocDeviceMap, CU_MEMHOSTALLOC_DEVICEMAP);
}

}  // namespace
}  // namespace kcache::backend::nvidia
