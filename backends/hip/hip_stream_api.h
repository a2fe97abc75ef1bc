// StreamApi on a HipTable: the same code on both of HIP's platforms.
//
// Threads and errors: cudalike/stream_api.h. Ownership: the device's context, from Open to Close.
#ifndef KCACHE_BACKENDS_HIP_HIP_STREAM_API_H_
#define KCACHE_BACKENDS_HIP_HIP_STREAM_API_H_

#include <memory>
#include <string>

#include "backends/cudalike/stream_api.h"
#include "backends/hip/hip_table.h"

namespace kcache::backend::hip {

class HipStreamApi : public cudalike::StreamApi {
 public:
  // `hip` is initialized and outlives the object; `ordinal` is HIP's own number.
  static absl::StatusOr<std::unique_ptr<cudalike::StreamApi>> Open(const HipTable& hip,
                                                                   int ordinal);

  absl::Status MakeCurrent() override;
  absl::StatusOr<cudalike::NativeModule> LoadModule(const v1::Artifact& artifact,
                                                    LoadStatistics* statistics) override;
  absl::Status UnloadModule(cudalike::NativeModule module) override;
  absl::StatusOr<cudalike::NativeFunction> GetFunction(cudalike::NativeModule module,
                                                       const std::string& name) override;
  // Arguments are the artifact's: HIP tells nothing of them.
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
  HipStreamApi(const HipTable& hip, int ordinal, uint32_t max_shared_bytes)
      : hip_(hip), ordinal_(ordinal), max_shared_bytes_(max_shared_bytes) {}

  absl::Status Check(HipResult result, const char* what,
                     v1::ErrorReason otherwise = v1::INTERNAL) const {
    if (result == kHipSuccess) return absl::OkStatus();
    return HipError(hip_, result, what, otherwise);
  }

  const HipTable& hip_;
  const int ordinal_;
  const uint32_t max_shared_bytes_;  // a block's, static and dynamic
};

}  // namespace kcache::backend::hip

#endif  // KCACHE_BACKENDS_HIP_HIP_STREAM_API_H_
