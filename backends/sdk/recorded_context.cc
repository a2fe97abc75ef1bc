#include "backends/sdk/recorded_context.h"

namespace kcache::backend {

absl::StatusOr<ModuleHandle> RecordedContext::LoadModule(const v1::Artifact& artifact,
                                                         LoadStatistics* statistics) {
  auto module = context_->LoadModule(artifact, statistics);
  if (module.ok()) history_->Record("load", {{"module", *module}});
  return module;
}

absl::Status RecordedContext::UnloadModule(ModuleHandle module) {
  history_->Record("unload", {{"module", module}});
  return context_->UnloadModule(module);
}

absl::StatusOr<KernelHandle> RecordedContext::ResolveKernel(ModuleHandle module,
                                                            const v1::Specialization& specialization,
                                                            v1::KernelInfo* info,
                                                            LoadStatistics* statistics) {
  auto kernel = context_->ResolveKernel(module, specialization, info, statistics);
  if (kernel.ok()) history_->Record("resolve", {{"kernel", *kernel}, {"module", module}});
  return kernel;
}

absl::Status RecordedContext::ReleaseKernel(KernelHandle kernel) {
  history_->Record("release", {{"kernel", kernel}});
  return context_->ReleaseKernel(kernel);
}

absl::StatusOr<MemoryHandle> RecordedContext::Allocate(uint64_t bytes, MemoryKind kind) {
  auto memory = context_->Allocate(bytes, kind);
  if (memory.ok()) history_->Record("allocate", {{"memory", *memory}});
  return memory;
}

absl::Status RecordedContext::Free(MemoryHandle memory) {
  history_->Record("free", {{"memory", memory}});
  return context_->Free(memory);
}

absl::StatusOr<QueueHandle> RecordedContext::CreateQueue() {
  auto queue = context_->CreateQueue();
  if (queue.ok()) history_->Record("queue", {{"queue", *queue}});
  return queue;
}

absl::Status RecordedContext::DestroyQueue(QueueHandle queue) {
  history_->Record("destroy-queue", {{"queue", queue}});
  return context_->DestroyQueue(queue);
}

absl::Status RecordedContext::Launch(QueueHandle queue, const LaunchCommand& command) {
  history_->Record("launch", {{"queue", queue}, {"kernel", command.kernel}});
  return context_->Launch(queue, command);
}

absl::Status RecordedContext::Write(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                                    std::string_view data) {
  return context_->Write(queue, destination, offset, data);
}

absl::Status RecordedContext::Read(QueueHandle queue, MemoryHandle source, uint64_t offset,
                                   std::span<char> destination) {
  return context_->Read(queue, source, offset, destination);
}

absl::Status RecordedContext::Copy(QueueHandle queue, MemoryHandle source, uint64_t source_offset,
                                   MemoryHandle destination, uint64_t destination_offset,
                                   uint64_t bytes) {
  return context_->Copy(queue, source, source_offset, destination, destination_offset, bytes);
}

absl::Status RecordedContext::Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                                   uint64_t bytes, std::string_view pattern) {
  return context_->Fill(queue, destination, offset, bytes, pattern);
}

absl::StatusOr<MemoryHandle> RecordedContext::CreateImage(
    const v1::ImageDescription& description) {
  auto image = context_->CreateImage(description);
  if (image.ok()) history_->Record("allocate", {{"memory", *image}});
  return image;
}

absl::Status RecordedContext::CopyBufferToImage(QueueHandle queue, MemoryHandle buffer,
                                                uint64_t offset, MemoryHandle image,
                                                const ImageRegion& region) {
  return context_->CopyBufferToImage(queue, buffer, offset, image, region);
}

absl::Status RecordedContext::CopyImageToBuffer(QueueHandle queue, MemoryHandle image,
                                                const ImageRegion& region, MemoryHandle buffer,
                                                uint64_t offset) {
  return context_->CopyImageToBuffer(queue, image, region, buffer, offset);
}

absl::StatusOr<MarkerHandle> RecordedContext::RecordMarker(QueueHandle queue) {
  auto marker = context_->RecordMarker(queue);
  if (marker.ok()) history_->Record("marker", {{"queue", queue}, {"marker", *marker}});
  return marker;
}

absl::Status RecordedContext::WaitMarker(MarkerHandle marker) {
  absl::Status status = context_->WaitMarker(marker);
  history_->Record("waited", {{"marker", marker}});
  return status;
}

absl::Status RecordedContext::Close() {
  history_->Record("close", {});
  return context_->Close();
}

}  // namespace kcache::backend
