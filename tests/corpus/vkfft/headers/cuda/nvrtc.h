/* As much of NVRTC as VkFFT uses; see cuda.h beside it. */
#ifndef KCACHE_TESTS_CORPUS_VKFFT_HEADERS_CUDA_NVRTC_H_
#define KCACHE_TESTS_CORPUS_VKFFT_HEADERS_CUDA_NVRTC_H_

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum { NVRTC_SUCCESS = 0 } nvrtcResult;

typedef struct _nvrtcProgram* nvrtcProgram;

const char* nvrtcGetErrorString(nvrtcResult result);
nvrtcResult nvrtcCreateProgram(nvrtcProgram* program, const char* source, const char* name,
                               int header_count, const char* const* headers,
                               const char* const* include_names);
nvrtcResult nvrtcDestroyProgram(nvrtcProgram* program);
nvrtcResult nvrtcCompileProgram(nvrtcProgram program, int option_count, const char* const* options);
nvrtcResult nvrtcGetProgramLog(nvrtcProgram program, char* log);
nvrtcResult nvrtcGetPTXSize(nvrtcProgram program, size_t* bytes);
nvrtcResult nvrtcGetPTX(nvrtcProgram program, char* ptx);

#ifdef __cplusplus
}
#endif

#endif /* KCACHE_TESTS_CORPUS_VKFFT_HEADERS_CUDA_NVRTC_H_ */
