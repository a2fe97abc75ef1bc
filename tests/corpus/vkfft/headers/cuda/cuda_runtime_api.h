/* As much of CUDA's runtime API as VkFFT uses; see cuda.h beside it. */
#ifndef KCACHE_TESTS_CORPUS_VKFFT_HEADERS_CUDA_CUDA_RUNTIME_API_H_
#define KCACHE_TESTS_CORPUS_VKFFT_HEADERS_CUDA_CUDA_RUNTIME_API_H_

#include <stddef.h>

#include "cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorLaunchFailure = 719,
  cudaErrorNotSupported = 801,
} cudaError_t;

enum cudaMemcpyKind { cudaMemcpyHostToDevice = 1, cudaMemcpyDeviceToHost = 2 };

typedef struct CUstream_st* cudaStream_t;
typedef struct CUevent_st* cudaEvent_t;

cudaError_t cudaMalloc(void** memory, size_t bytes);
cudaError_t cudaFree(void* memory);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, enum cudaMemcpyKind kind);
cudaError_t cudaDeviceSynchronize(void);
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

#ifdef __cplusplus
}
#endif

#endif /* KCACHE_TESTS_CORPUS_VKFFT_HEADERS_CUDA_CUDA_RUNTIME_API_H_ */
