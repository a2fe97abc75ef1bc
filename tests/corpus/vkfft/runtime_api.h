// What VkfftTransform (vkfft_transform.h) needs of CUDA and HIP alike.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_RUNTIME_API_H_
#define KCACHE_TESTS_CORPUS_VKFFT_RUNTIME_API_H_

#include <vkFFT.h>

#include <cstdint>
#include <string>

#include "tests/corpus/vkfft/runtime_over_kcache.h"

namespace kcache::corpus {

class RuntimeApi : public RuntimeOverKcache {
 public:
  using Memory = void*;
  using RuntimeOverKcache::RuntimeOverKcache;

  Memory Allocate(size_t bytes) {
    auto memory = RuntimeOverKcache::Allocate(bytes);
    return Succeeded(memory.status()) ? *memory : nullptr;
  }
  void Release(Memory memory) { RuntimeOverKcache::Release(static_cast<RuntimeMemory*>(memory)); }
  absl::Status Write(Memory memory, const void* data, size_t bytes) {
    return RuntimeOverKcache::Write(static_cast<RuntimeMemory*>(memory), data, bytes);
  }
  absl::Status Read(Memory memory, void* data, size_t bytes) {
    return RuntimeOverKcache::Read(static_cast<RuntimeMemory*>(memory), data, bytes);
  }

  void Configure(VkFFTConfiguration* configuration) { configuration->device = &device_; }

  VkFFTResult Append(VkFFTApplication* application, int direction, Memory* memory,
                     uint64_t offset) {
    VkFFTLaunchParams launch = {};
    launch.buffer = memory;
    launch.bufferOffset = offset;
    return VkFFTAppend(application, direction, &launch);
  }

 private:
  int device_ = 0;  // a CUdevice or a hipDevice_t, which VkFFT keeps a pointer to
};

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_RUNTIME_API_H_
