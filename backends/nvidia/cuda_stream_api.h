// StreamApi on the CUDA driver API: the device's primary context.
//
// The primary context costs what a context of its own would (the process has no other), and another
// library in this process would share it instead of making a second one.
//
// Threads and errors: stream_api.h. Ownership: holds one retain on the primary context from Open to
// Close.
#ifndef KCACHE_BACKENDS_NVIDIA_CUDA_STREAM_API_H_
#define KCACHE_BACKENDS_NVIDIA_CUDA_STREAM_API_H_

#include <memory>
#include <string>

#include "backends/cudalike/stream_api.h"
#include "backends/nvidia/driver_table.h"

namespace kcache::backend::nvidia {

class CudaStreamApi : public cudalike::StreamApi {
 public:
  // `driver` is initialized and outlives the object; `ordinal` is the driver's own number.
  static absl::StatusOr<std::unique_ptr<cudalike::StreamApi>> Open(const DriverTable& driver,
                                                                   int ordinal);

  absl::Status MakeCurrent() override;
  absl::StatusOr<cudalike::NativeModule> LoadModule(const v1::Artifact& artifact,
                                                    LoadStatistics* statistics) override;
  absl::Status UnloadModule(cudalike::NativeModule module) override;
  absl::StatusOr<cudalike::NativeFunction> GetFunction(cudalike::NativeModule module,
                                                       const std::string& name) override;
  // Argument sizes and offsets come from cuFuncGetParamInfo (CUDA 12.4 and later); with an older
  // driver the artifact's own reflection stands, and without one arguments_known stays false.
  absl::Status Describe(cudalike::NativeFunction function, v1::KernelInfo* info) override;
  absl::StatusOr<uint32_t> RaiseDynamicSharedMemory(cudalike::NativeFunction function,
                                                    const v1::KernelInfo& info) override;
  absl::StatusOr<cudalike::DeviceAddress> AllocateDevice(uint64_t bytes) override;
  absl::Status FreeDevice(cudalike::DeviceAddress address) override;
  absl::StatusOr<cudalike::HostMemory> AllocateHost(uint64_t bytes) override;
  absl::Status FreeHost(const cudalike::HostMemory& memory) override;
  absl::StatusOr<cudalike::NativeStream> CreateStream() override;
  absl::Status DestroyStream(cudalike::NativeStream stream) override;
  absl::Status CopyToDevice(cudalike::DeviceAddress destination, const void* source, uint64_t bytes,
                            cudalike::NativeStream stream) override;
  absl::Status CopyToHost(void* destination, cudalike::DeviceAddress source, uint64_t bytes,
                          cudalike::NativeStream stream) override;
  absl::Status CopyOnDevice(cudalike::DeviceAddress destination, cudalike::DeviceAddress source,
                            uint64_t bytes, cudalike::NativeStream stream) override;
  absl::Status Set(cudalike::DeviceAddress destination, uint32_t value, uint32_t width,
                   uint64_t count, cudalike::NativeStream stream) override;
  absl::StatusOr<cudalike::NativeEvent> CreateEvent() override;
  absl::Status DestroyEvent(cudalike::NativeEvent event) override;
  absl::Status RecordEvent(cudalike::NativeEvent event, cudalike::NativeStream stream) override;
  absl::StatusOr<bool> QueryEvent(cudalike::NativeEvent event) override;
  absl::Status WaitEvent(cudalike::NativeEvent event) override;
  absl::Status Launch(cudalike::NativeFunction function, const Extent& grid, const Extent& block,
                      uint32_t dynamic_shared_bytes, cudalike::NativeStream stream,
                      void** parameters) override;
  absl::Status Close() override;

 private:
  CudaStreamApi(const DriverTable& driver, CuDevice device, CuContext context,
                uint32_t max_shared_bytes)
      : driver_(driver), device_(device), context_(context), max_shared_bytes_(max_shared_bytes) {}

  absl::Status Check(CuResult result, const char* what,
                     v1::ErrorReason otherwise = v1::INTERNAL) const {
    if (result == kCudaSuccess) return absl::OkStatus();
    return DriverError(driver_, result, what, otherwise);
  }
  absl::StatusOr<int> FunctionAttribute(CuFunction function, CuFunctionAttribute attribute) const;

  const DriverTable& driver_;
  const CuDevice device_;
  const CuContext context_;
  const uint32_t max_shared_bytes_;  // a block's, static and dynamic, when asked for
};

}  // namespace kcache::backend::nvidia

#endif  // KCACHE_BACKENDS_NVIDIA_CUDA_STREAM_API_H_
