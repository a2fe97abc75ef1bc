// A context whose driver calls are recorded: what really reached the driver, and in which order, whatever
// the layers above believe. Only where a history was asked for.
//
// A call that takes effect is recorded before it is made, one that waits after it has returned. So a line
// `launch` behind the line `release` of its kernel is a launch that came after the release, and a launch
// without a `waited` marker behind it may still run.
//
// Threads, ownership: as driver.h says; owns the context that it records.

#ifndef KCACHE_BACKENDS_SDK_RECORDED_CONTEXT_H_
#define KCACHE_BACKENDS_SDK_RECORDED_CONTEXT_H_

#include <memory>

#include "backends/sdk/driver.h"
#include "contract/history.h"

namespace kcache::backend {

class RecordedContext final : public Context {
 public:
  RecordedContext(std::unique_ptr<Context> context, const History* history)
      : context_(std::move(context)), history_(history) {}

  const v1::DeviceInfo& device() const override { return context_->device(); }
  absl::StatusOr<ModuleHandle> LoadModule(const v1::Artifact& artifact,
                                          LoadStatistics* statistics) override;
  absl::Status UnloadModule(ModuleHandle module) override;
  absl::StatusOr<KernelHandle> ResolveKernel(ModuleHandle module,
                                             const v1::Specialization& specialization,
                                             v1::KernelInfo* info,
                                             LoadStatistics* statistics) override;
  absl::Status ReleaseKernel(KernelHandle kernel) override;
  absl::StatusOr<MemoryHandle> Allocate(uint64_t bytes, MemoryKind kind) override;
  absl::Status Free(MemoryHandle memory) override;
  absl::StatusOr<QueueHandle> CreateQueue() override;
  absl::Status DestroyQueue(QueueHandle queue) override;
  absl::Status Launch(QueueHandle queue, const LaunchCommand& command) override;
  absl::Status Write(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                     std::string_view data) override;
  absl::Status Read(QueueHandle queue, MemoryHandle source, uint64_t offset,
                    std::span<char> destination) override;
  absl::Status Copy(QueueHandle queue, MemoryHandle source, uint64_t source_offset,
                    MemoryHandle destination, uint64_t destination_offset,
                    uint64_t bytes) override;
  absl::Status Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset, uint64_t bytes,
                    std::string_view pattern) override;
  absl::StatusOr<MemoryHandle> CreateImage(const v1::ImageDescription& description) override;
  absl::Status CopyBufferToImage(QueueHandle queue, MemoryHandle buffer, uint64_t offset,
                                 MemoryHandle image, const ImageRegion& region) override;
  absl::Status CopyImageToBuffer(QueueHandle queue, MemoryHandle image, const ImageRegion& region,
                                 MemoryHandle buffer, uint64_t offset) override;
  uint64_t late_compiles() const override { return context_->late_compiles(); }
  absl::Status Flush(QueueHandle queue) override { return context_->Flush(queue); }
  absl::StatusOr<MarkerHandle> RecordMarker(QueueHandle queue) override;
  absl::Status WaitMarker(MarkerHandle marker) override;
  absl::Status Close() override;

 private:
  const std::unique_ptr<Context> context_;
  const History* const history_;
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_RECORDED_CONTEXT_H_
