// What CUDA's and HIP's calls come to, on top of kcache. The two APIs are twins:
// cuda_over_kcache.cc and hip_over_kcache.cc give VkFFT their functions by name, and this is behind
// both.
//
// A program's source passes through the runtime compiler's calls unchanged: what VkFFT takes for
// PTX or a code object, and only carries to the module, is the source. It is compiled when a
// function is asked for by name. With a device it becomes a kernel there, and memory, copies and
// launches are the device host's; without one it is compiled and checked, memory is empty, and
// launches do nothing.
//
// Threads: one. Ownership: RuntimeOverKcache outlives what was made through it; it owns memory and
// modules.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_RUNTIME_OVER_KCACHE_H_
#define KCACHE_TESTS_CORPUS_VKFFT_RUNTIME_OVER_KCACHE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/corpus/vkfft/place.h"
#include "tests/corpus/vkfft/transform.h"

namespace kcache::corpus {

// What the handles that VkFFT has point to.
struct RuntimeMemory {
  size_t bytes = 0;
  Buffer buffer;  // with a device
};
struct RuntimeFunction {
  Kernel kernel;  // with a device
};
struct RuntimeModule {
  std::string source;
  std::vector<std::unique_ptr<RuntimeFunction>> functions;
};

class RuntimeOverKcache {
 public:
  explicit RuntimeOverKcache(const Place& place, std::string language);
  ~RuntimeOverKcache();
  RuntimeOverKcache(const RuntimeOverKcache&) = delete;
  RuntimeOverKcache& operator=(const RuntimeOverKcache&) = delete;

  // The one there is: the APIs' functions have no state to pass.
  static RuntimeOverKcache* current();

  // The device's, or, without one, those of the cards that the architecture is of.
  const DeviceLimits& limits() const { return limits_; }
  int warp_size() const { return warp_size_; }

  absl::StatusOr<RuntimeMemory*> Allocate(size_t bytes);
  void Release(RuntimeMemory* memory) { memories_.erase(memory); }
  absl::Status Write(RuntimeMemory* memory, const void* data, size_t bytes);
  absl::Status Read(RuntimeMemory* memory, void* data, size_t bytes);

  RuntimeModule* Load(std::string source);
  void Unload(RuntimeModule* module) { modules_.erase(module); }
  absl::StatusOr<RuntimeFunction*> Function(RuntimeModule* module, const std::string& entry);

  // `arguments`: as cuLaunchKernel has them, a pointer to each; every one is memory.
  absl::Status Launch(const RuntimeFunction& function, Dim3 grid, Dim3 block, uint32_t shared_bytes,
                      void* const* arguments);
  absl::Status Synchronize();

  const Counts& counts() const { return counts_; }
  // The first thing that kcache refused, for VkFFT's own errors are numbers.
  const absl::Status& failure() const { return failure_; }
  // Remembers it.
  bool Succeeded(const absl::Status& status);

 private:
  absl::Status LoadFunction(const std::string& source, const std::string& entry,
                            RuntimeFunction* function);

  const Place place_;
  const std::string language_;
  DeviceLimits limits_;
  int warp_size_ = 32;
  Queue queue_;  // with a device
  std::map<RuntimeMemory*, std::unique_ptr<RuntimeMemory>> memories_;
  std::map<RuntimeModule*, std::unique_ptr<RuntimeModule>> modules_;
  Counts counts_;
  absl::Status failure_;
};

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_RUNTIME_OVER_KCACHE_H_
