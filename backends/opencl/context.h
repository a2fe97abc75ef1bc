// The device role: one OpenCL context on one device, with in-order queues.
//
// Threads and handles: as Context in backends/sdk/driver.h says. No lock of this backend is held
// while a driver call runs. Ownership: everything here is released by its own call or, what is
// left, by Close(), children first.

#ifndef KCACHE_BACKENDS_OPENCL_CONTEXT_H_
#define KCACHE_BACKENDS_OPENCL_CONTEXT_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "backends/opencl/cl_object.h"
#include "backends/opencl/device_catalog.h"
#include "backends/opencl/device_memory.h"
#include "backends/opencl/handle_table.h"
#include "backends/opencl/loaded_kernel.h"
#include "backends/sdk/driver.h"
#include "contract/mutex.h"

namespace kcache::backend::opencl {

class OpenClContext final : public Context {
 public:
  static absl::StatusOr<std::unique_ptr<OpenClContext>> Open(const CatalogDevice& device,
                                                             const v1::DeviceInfo& info);
  ~OpenClContext() override;

  const v1::DeviceInfo& device() const override { return info_; }

  cl_context cl() const { return context_.get(); }

  // Takes a program that was built for this device in this context.
  ModuleHandle AdoptProgram(ClProgram program);

  absl::StatusOr<ModuleHandle> LoadModule(const v1::Artifact& artifact,
                                          LoadStatistics* statistics) override;
  absl::Status UnloadModule(ModuleHandle module) override;
  absl::StatusOr<KernelHandle> ResolveKernel(ModuleHandle module,
                                             const v1::Specialization& specialization,
                                             v1::KernelInfo* info,
                                             LoadStatistics* statistics) override;
  absl::Status ReleaseKernel(KernelHandle kernel) override;

  absl::StatusOr<MemoryHandle> Allocate(uint64_t bytes, MemoryKind kind) override;
  absl::StatusOr<MemoryHandle> CreateImage(const v1::ImageDescription& description) override;
  absl::Status Free(MemoryHandle memory) override;

  absl::StatusOr<QueueHandle> CreateQueue() override;
  absl::Status DestroyQueue(QueueHandle queue) override;

  absl::Status Launch(QueueHandle queue, const LaunchCommand& command) override;
  absl::Status Write(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                     std::string_view data) override;
  absl::Status Read(QueueHandle queue, MemoryHandle source, uint64_t offset,
                    std::span<char> destination) override;
  absl::Status Copy(QueueHandle queue, MemoryHandle source, uint64_t source_offset,
                    MemoryHandle destination, uint64_t destination_offset, uint64_t bytes) override;
  absl::Status Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset, uint64_t bytes,
                    std::string_view pattern) override;
  absl::Status CopyBufferToImage(QueueHandle queue, MemoryHandle buffer, uint64_t offset,
                                 MemoryHandle image, const ImageRegion& region) override;
  absl::Status CopyImageToBuffer(QueueHandle queue, MemoryHandle image, const ImageRegion& region,
                                 MemoryHandle buffer, uint64_t offset) override;

  absl::Status Flush(QueueHandle queue) override;
  absl::StatusOr<MarkerHandle> RecordMarker(QueueHandle queue) override;
  absl::Status WaitMarker(MarkerHandle marker) override;
  uint64_t late_compiles() const override { return late_compiles_.load(std::memory_order_relaxed); }

  absl::Status Close() override;

 private:
  // The sampler's normalized coordinates, addressing and filter.
  using SamplerKey = std::tuple<bool, int, bool>;

  OpenClContext(const CatalogDevice& device, const v1::DeviceInfo& info);

  uint64_t NextHandle() { return next_handle_.fetch_add(1, std::memory_order_relaxed); }

  // Makes the driver allocate now, so that a lack of memory is this allocation's and not a
  // launch's.
  absl::Status Commit(cl_mem memory);
  absl::StatusOr<MemoryHandle> Register(ClMemory memory, uint64_t bytes, bool is_image);
  absl::StatusOr<std::shared_ptr<DeviceMemory>> BufferOf(MemoryHandle memory) const;
  absl::StatusOr<std::shared_ptr<DeviceMemory>> ImageOf(MemoryHandle memory) const;

  // A part of a buffer that is copied for one launch (staging.h), and its copy. StageIn enqueues the
  // copies, StageOut those back and lets go.
  struct StagedPart;
  absl::Status StageIn(cl_command_queue queue, std::span<const KernelArgument> arguments,
                       std::vector<StagedPart>* staged);
  absl::Status StageOut(cl_command_queue queue, std::vector<StagedPart>* staged);
  absl::Status SetArguments(QueueBinding* binding, std::span<const KernelArgument> arguments,
                            std::vector<StagedPart>* staged);
  absl::Status SetArgument(QueueBinding* binding, cl_uint index, const KernelArgument& argument,
                           std::vector<StagedPart>* staged);
  absl::Status Enqueue(cl_command_queue queue, LoadedKernel* kernel, const QueueBinding& binding,
                       const LaunchCommand& command);
  absl::StatusOr<cl_sampler> SamplerFor(const v1::Sampler& sampler);
  void CountLateCompile(LoadedKernel* kernel, const LaunchCommand& command, const Extent& local);

  // What the driver said about this context by itself; empty when nothing.
  std::string DriverMessage() const;
  absl::Status WithDriverMessage(const absl::Status& status) const;
  static void CL_CALLBACK OnDriverMessage(const char* message, const void*, size_t, void* self);

  const CatalogDevice catalog_device_;
  const v1::DeviceInfo info_;
  const bool is_pocl_;
  const uint64_t sub_buffer_alignment_;
  ClContext context_;
  ClQueue setup_queue_;  // carries Commit alone

  std::atomic<uint64_t> next_handle_{1};
  std::atomic<uint64_t> late_compiles_{0};
  HandleTable<ClProgram> modules_{"module"};
  HandleTable<LoadedKernel> kernels_{"kernel"};
  HandleTable<DeviceMemory> memory_{"memory"};
  HandleTable<ClQueue> queues_{"queue"};
  HandleTable<ClEvent> markers_{"marker"};

  mutable Mutex mutex_;
  std::map<SamplerKey, ClSampler> samplers_ ABSL_GUARDED_BY(mutex_);
  std::string driver_message_ ABSL_GUARDED_BY(mutex_);
  bool closed_ = false;
};

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_CONTEXT_H_
