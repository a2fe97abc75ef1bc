// A Context on any StreamApi: handles, argument packing, staged copies, fills, markers.
//
// Copies. CopyToHost into pageable memory returns only when everything before it in its stream is
// done, which would make Read a wait. So a Read goes to page-locked blocks (PinnedPool) and the
// marker recorded after it moves the bytes to their destination when it is waited for; a Write of
// more than kDirectWriteBytes goes through such blocks as well. When there are no blocks left both
// fall back to the direct copy.
//
// Markers. Events are kept for reuse. A wait polls its event briefly, because most waits are short,
// and then blocks without spinning.
//
// Threads: as driver.h says for Context. A queue's list of staged copies belongs to whoever issues
// commands on the queue, and moves into the marker with RecordMarker.
#ifndef KCACHE_BACKENDS_CUDALIKE_STREAM_CONTEXT_H_
#define KCACHE_BACKENDS_CUDALIKE_STREAM_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cudalike/handle_map.h"
#include "backends/cudalike/pinned_pool.h"
#include "backends/cudalike/stream_api.h"
#include "backends/sdk/driver.h"
#include "contract/mutex.h"

namespace kcache::backend::cudalike {

class StreamContext : public Context {
 public:
  static constexpr size_t kDirectWriteBytes = size_t{64} << 10;

  StreamContext(std::unique_ptr<StreamApi> api, v1::DeviceInfo device);
  ~StreamContext() override;

  const v1::DeviceInfo& device() const override { return device_; }

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
                    MemoryHandle destination, uint64_t destination_offset, uint64_t bytes) override;
  absl::Status Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset, uint64_t bytes,
                    std::string_view pattern) override;
  absl::Status Flush(QueueHandle queue) override;

  absl::StatusOr<MarkerHandle> RecordMarker(QueueHandle queue) override;
  absl::Status WaitMarker(MarkerHandle marker) override;

  absl::Status Close() override;

 private:
  struct Kernel {
    NativeFunction function = nullptr;
    std::string entry;
    bool arguments_known = false;
    std::vector<uint64_t> argument_bytes;  // when known
    uint32_t max_dynamic_shared_bytes = 0;
  };
  struct Memory {
    DeviceAddress address = 0;
    char* host = nullptr;  // page-locked host memory; null for device memory
    uint64_t bytes = 0;
  };
  // Copies that go through page-locked blocks, until the marker after them is done.
  struct Staged {
    struct Arrival {
      const char* block = nullptr;
      char* destination = nullptr;
      size_t bytes = 0;
    };
    std::vector<char*> blocks;
    std::vector<Arrival> arrivals;
  };
  struct Queue {
    NativeStream stream = nullptr;
    Staged staged;
  };
  struct Marker {
    NativeEvent event = nullptr;
    Staged staged;
  };

  absl::StatusOr<std::shared_ptr<Queue>> FindQueue(QueueHandle queue);
  absl::StatusOr<DeviceAddress> Address(MemoryHandle memory, uint64_t offset);
  absl::Status FreeMemory(const Memory& memory);
  absl::StatusOr<NativeEvent> TakeEvent();
  absl::Status AwaitEvent(NativeEvent event);

  const std::unique_ptr<StreamApi> api_;
  const v1::DeviceInfo device_;
  PinnedPool pool_;
  HandleMap<NativeModule> modules_;
  HandleMap<std::shared_ptr<const Kernel>> kernels_;
  HandleMap<Memory> memories_;
  HandleMap<std::shared_ptr<Queue>> queues_;
  HandleMap<std::shared_ptr<Marker>> markers_;
  Mutex events_mutex_;
  std::vector<NativeEvent> idle_events_ ABSL_GUARDED_BY(events_mutex_);
};

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_STREAM_CONTEXT_H_
