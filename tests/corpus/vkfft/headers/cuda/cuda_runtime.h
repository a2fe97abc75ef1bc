/* VkFFT includes it beside cuda_runtime_api.h, and uses nothing more. */
#include "cuda_runtime_api.h"
