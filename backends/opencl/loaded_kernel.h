// One entry point of a loaded program, launched from several queues at once.
//
// clSetKernelArg changes the cl_kernel, so two queues must not share one. Each queue gets a
// cl_kernel of its own, made at its first launch, which also remembers the arguments it was last
// given: setting only what changed is most of what makes a launch cheap.
//
// Threads: any; a binding is used by its queue's thread alone. Ownership: the bindings live as long
// as the kernel.

#ifndef KCACHE_BACKENDS_OPENCL_LOADED_KERNEL_H_
#define KCACHE_BACKENDS_OPENCL_LOADED_KERNEL_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/opencl/cl_object.h"
#include "backends/sdk/driver.h"
#include "contract/mutex.h"

namespace kcache::backend::opencl {

// What an argument was last set to.
struct BoundArgument {
  bool is_set = false;
  KernelArgument::Kind kind = KernelArgument::Kind::kScalar;
  std::string scalar;  // also a sampler's three fields
  MemoryHandle memory = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;

  bool Is(const KernelArgument& argument) const;
  void Become(const KernelArgument& argument);
};

// A kernel as one queue launches it.
struct QueueBinding {
  ClKernel kernel;
  std::vector<BoundArgument> arguments;
};

class LoadedKernel {
 public:
  LoadedKernel(cl_program program, v1::KernelInfo info);

  const v1::KernelInfo& info() const { return info_; }

  absl::StatusOr<QueueBinding*> BindingOf(QueueHandle queue);

  // Whether the artifact came finished for `local`, without a global offset.
  bool FinishedFor(const Extent& local) const;

  // The largest finished local size that divides `global`; all zero when there is none.
  Extent FinishedDivisorOf(const Extent& global) const;

  // True the first time that this kernel is launched in this way.
  bool FirstLaunchWith(const Extent& local, bool has_offset);

  absl::Status Release();

 private:
  const cl_program program_;  // the module's, which outlives its kernels
  const v1::KernelInfo info_;
  Mutex mutex_;
  std::unordered_map<QueueHandle, std::unique_ptr<QueueBinding>> bindings_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::array<uint32_t, 4>> launched_with_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_LOADED_KERNEL_H_
