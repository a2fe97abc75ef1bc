#include "backends/vulkan/kernel.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::vulkan {
namespace {

std::string ToText(const LocalSize& size) {
  return absl::StrCat(size[0], "x", size[1], "x", size[2]);
}

}  // namespace

absl::StatusOr<std::shared_ptr<Kernel>> Kernel::Create(std::shared_ptr<LoadedModule> module,
                                                       const std::string& entry,
                                                       const v1::Specialization& specialization,
                                                       uint64_t* jit_microseconds) {
  auto values = SpecializationOf(specialization, module->spirv());
  if (!values.ok()) return values.status();
  std::optional<LocalSize> local;
  const v1::Dim3& wanted = specialization.local_size();
  if (wanted.x() != 0) local = LocalSize{wanted.x(), wanted.y(), wanted.z()};
  if (local) {
    for (uint32_t& extent : *local) extent = extent == 0 ? 1 : extent;
  }
  auto kernel = std::shared_ptr<Kernel>(new Kernel(std::move(module), entry, *std::move(values)));
  auto pipeline = kernel->module_->MakePipeline(entry, kernel->values_, local, jit_microseconds);
  if (!pipeline.ok()) return pipeline.status();
  kernel->pipeline_ = *std::move(pipeline);
  return kernel;
}

absl::StatusOr<std::shared_ptr<const Pipeline>> Kernel::PipelineFor(const LocalSize& local,
                                                                    uint64_t* jit_microseconds) {
  if (local == pipeline_->local_size()) return pipeline_;
  if (!pipeline_->entry().local_size_is_free()) {
    return MakeError(v1::INVALID_LAUNCH,
                     absl::StrCat("local size ", ToText(local), ": entry point ", Quoted(entry_),
                                  " was compiled for ", ToText(pipeline_->local_size())));
  }
  {
    MutexLock lock(&mutex_);
    const auto found = variants_.find(local);
    if (found != variants_.end()) return found->second;
  }
  // Two threads may both make it; one of the two is kept.
  auto made = module_->MakePipeline(entry_, values_, local, jit_microseconds);
  if (!made.ok()) return made.status();
  MutexLock lock(&mutex_);
  return variants_.emplace(local, *std::move(made)).first->second;
}

absl::Status Kernel::Prepare(const LaunchCommand& command, const VkPhysicalDeviceLimits& limits,
                             Dispatch* dispatch, uint64_t* jit_microseconds) {
  if (command.has_global_offset) {
    return MakeError(v1::INVALID_LAUNCH, "Vulkan has no global offset");
  }
  if (command.dynamic_local_bytes != 0) {
    return MakeError(v1::INVALID_LAUNCH,
                     absl::StrCat("Vulkan has no dynamic local memory; ",
                                  command.dynamic_local_bytes, " bytes were asked for"));
  }
  const LocalSize local = command.driver_picks_local
                              ? pipeline_->local_size()
                              : LocalSize{command.local.x, command.local.y, command.local.z};
  auto pipeline = PipelineFor(local, jit_microseconds);
  if (!pipeline.ok()) return pipeline.status();

  const uint32_t global[3] = {command.global.x, command.global.y, command.global.z};
  const uint32_t grid[3] = {command.grid.x, command.grid.y, command.grid.z};
  for (size_t i = 0; i < 3; ++i) {
    if (command.driver_picks_local && global[i] % local[i] != 0) {
      return MakeError(v1::INVALID_LAUNCH,
                       absl::StrCat("global size[", i, "] ", global[i],
                                    " is no multiple of the local size ", local[i]));
    }
    dispatch->grid[i] = command.driver_picks_local ? global[i] / local[i] : grid[i];
    if (dispatch->grid[i] == 0 || dispatch->grid[i] > limits.maxComputeWorkGroupCount[i]) {
      return MakeError(
          v1::INVALID_LAUNCH,
          absl::StrCat("grid[", i, "] ", dispatch->grid[i], "; 1 to maxComputeWorkGroupCount ",
                       limits.maxComputeWorkGroupCount[i], " are possible"));
    }
  }
  dispatch->pipeline = *std::move(pipeline);
  dispatch->repeat = command.repeat == 0 ? 1 : command.repeat;
  return absl::OkStatus();
}

}  // namespace kcache::backend::vulkan
