// One entry point of a loaded module with its specialization, as a lease names it.
//
// The pipeline for the local size that the lease asked for is made when the kernel is; if the
// shader leaves its local size free, a launch with another one makes and keeps another pipeline.
//
// Threads: any. Ownership: shares its module; pipelines are shared with the work that uses them.

#ifndef KCACHE_BACKENDS_VULKAN_KERNEL_H_
#define KCACHE_BACKENDS_VULKAN_KERNEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "backends/sdk/driver.h"
#include "backends/vulkan/pipeline.h"
#include "backends/vulkan/stream.h"
#include "contract/mutex.h"

namespace kcache::backend::vulkan {

class Kernel {
 public:
  static absl::StatusOr<std::shared_ptr<Kernel>> Create(std::shared_ptr<LoadedModule> module,
                                                        const std::string& entry,
                                                        const v1::Specialization& specialization,
                                                        uint64_t* jit_microseconds);

  const Pipeline& pipeline() const { return *pipeline_; }

  // The pipeline and grid for a launch: INVALID_LAUNCH, naming value and limit, for extents that do
  // not fit. `jit_microseconds` is increased when a pipeline had to be compiled for it.
  absl::Status Prepare(const LaunchCommand& command, const VkPhysicalDeviceLimits& limits,
                       Dispatch* dispatch, uint64_t* jit_microseconds);

 private:
  Kernel(std::shared_ptr<LoadedModule> module, std::string entry, SpecializationValues values)
      : module_(std::move(module)), entry_(std::move(entry)), values_(std::move(values)) {}

  absl::StatusOr<std::shared_ptr<const Pipeline>> PipelineFor(const LocalSize& local,
                                                              uint64_t* jit_microseconds);

  const std::shared_ptr<LoadedModule> module_;
  const std::string entry_;
  const SpecializationValues values_;
  std::shared_ptr<const Pipeline> pipeline_;  // set once, by Create

  Mutex mutex_;
  std::map<LocalSize, std::shared_ptr<const Pipeline>> variants_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_KERNEL_H_
