// The CUDA driver API as an application uses it without kcache: the baseline of the figures.
//
// Threads: one at a time.

#ifndef KCACHE_TESTS_GPU_CUDA_NATIVE_H_
#define KCACHE_TESTS_GPU_CUDA_NATIVE_H_

#include <memory>
#include <string>

namespace kcache::gpu {

// A context of this process on device 0, and one kernel in it. Failures print the driver's error name.
class CudaNative {
 public:
  static std::unique_ptr<CudaNative> Open();  // cuInit and a context
  virtual ~CudaNative() = default;
  virtual bool Load(const std::string& cubin, const std::string& entry) = 0;
  virtual bool Launch(int count) = 0;  // one block, one thread, no arguments
  virtual bool Synchronize() = 0;
};

}  // namespace kcache::gpu

#endif  // KCACHE_TESTS_GPU_CUDA_NATIVE_H_
