// A device in memory for tests of StreamContext: commands wait in their stream until somebody asks
// for an event, as on a device that is slow; failures are set by the test.
//
// Threads: any.
#ifndef KCACHE_BACKENDS_CUDALIKE_FAKE_STREAM_API_H_
#define KCACHE_BACKENDS_CUDALIKE_FAKE_STREAM_API_H_

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cudalike/stream_api.h"
#include "contract/error_reason.h"
#include "contract/mutex.h"

namespace kcache::backend::cudalike {

class FakeStreamApi : public StreamApi {
 public:
  // What a test looks at and sets; shared because StreamContext owns the API.
  struct World {
    Mutex mutex;
    std::set<void*> objects;  // modules, streams, events, memory: what is not given back
    std::vector<std::string> calls;
    uint64_t memory_left = uint64_t{1} << 30;
    bool refuse_host_memory = false;
    absl::Status fault;  // of every event from now on
    uint32_t launches = 0;
    uint64_t last_parameter = 0;
    bool closed = false;
  };
  explicit FakeStreamApi(std::shared_ptr<World> world) : world_(std::move(world)) {}

  absl::Status MakeCurrent() override { return absl::OkStatus(); }
  absl::StatusOr<NativeModule> LoadModule(const v1::Artifact&, LoadStatistics*) override {
    return New(1);
  }
  absl::Status UnloadModule(NativeModule module) override { return Delete(module); }
  absl::StatusOr<NativeFunction> GetFunction(NativeModule module,
                                             const std::string& name) override {
    if (name == "missing") return MakeError(v1::UNKNOWN_ENTRY, "no entry point missing");
    return module;
  }
  absl::Status Describe(NativeFunction, v1::KernelInfo* info) override {
    info->set_registers(17);
    return absl::OkStatus();
  }
  absl::StatusOr<uint32_t> RaiseDynamicSharedMemory(NativeFunction,
                                                    const v1::KernelInfo&) override {
    return 1000;
  }
  absl::StatusOr<DeviceAddress> AllocateDevice(uint64_t bytes) override {
    {
      MutexLock lock(&world_->mutex);
      if (bytes > world_->memory_left) return MakeError(v1::OUT_OF_DEVICE_MEMORY, "used up");
      world_->memory_left -= bytes;
    }
    return reinterpret_cast<DeviceAddress>(New(bytes));
  }
  absl::Status FreeDevice(DeviceAddress address) override {
    return Delete(reinterpret_cast<void*>(address));
  }
  absl::StatusOr<HostMemory> AllocateHost(uint64_t bytes) override {
    {
      MutexLock lock(&world_->mutex);
      if (world_->refuse_host_memory)
        return MakeError(v1::OUT_OF_DEVICE_MEMORY, "no pinned memory");
    }
    void* memory = New(bytes);
    return HostMemory{static_cast<char*>(memory), reinterpret_cast<DeviceAddress>(memory)};
  }
  absl::Status FreeHost(const HostMemory& memory) override { return Delete(memory.host); }
  absl::StatusOr<NativeStream> CreateStream() override { return New(1); }
  absl::Status DestroyStream(NativeStream stream) override { return Delete(stream); }

  absl::Status CopyToDevice(DeviceAddress destination, const void* source, uint64_t bytes,
                            NativeStream stream) override {
    // Pageable memory is read at once, page-locked memory when the copy runs.
    if (IsObject(source)) return Enqueue(stream, "htod", [=] { Move(destination, source, bytes); });
    auto copy = std::make_shared<std::string>(static_cast<const char*>(source), bytes);
    return Enqueue(stream, "htod direct", [=] { Move(destination, copy->data(), bytes); });
  }
  absl::Status CopyToHost(void* destination, DeviceAddress source, uint64_t bytes,
                          NativeStream stream) override {
    const bool direct = !IsObject(destination);
    absl::Status status = Enqueue(stream, direct ? "dtoh direct" : "dtoh", [=] {
      std::memcpy(destination, reinterpret_cast<const void*>(source), bytes);
    });
    if (direct) Run();
    return status;
  }
  absl::Status CopyOnDevice(DeviceAddress destination, DeviceAddress source, uint64_t bytes,
                            NativeStream stream) override {
    return Enqueue(stream, "dtod",
                   [=] { Move(destination, reinterpret_cast<const void*>(source), bytes); });
  }
  absl::Status Set(DeviceAddress destination, uint32_t value, uint32_t width, uint64_t count,
                   NativeStream stream) override {
    return Enqueue(stream, absl::StrCat("set", width), [=] {
      for (uint64_t i = 0; i < count; ++i) Move(destination + i * width, &value, width);
    });
  }
  absl::StatusOr<NativeEvent> CreateEvent() override { return New(1); }
  absl::Status DestroyEvent(NativeEvent event) override { return Delete(event); }
  absl::Status RecordEvent(NativeEvent, NativeStream) override { return absl::OkStatus(); }
  absl::StatusOr<bool> QueryEvent(NativeEvent) override {
    MutexLock lock(&world_->mutex);
    if (!world_->fault.ok()) return world_->fault;
    return false;
  }
  absl::Status WaitEvent(NativeEvent) override {
    Run();
    MutexLock lock(&world_->mutex);
    return world_->fault;
  }
  absl::Status Launch(NativeFunction, const Extent&, const Extent&, uint32_t, NativeStream stream,
                      void** parameters) override {
    uint64_t parameter = 0;
    if (parameters[0] != nullptr) std::memcpy(&parameter, parameters[0], sizeof(parameter));
    return Enqueue(stream, "launch", [this, parameter] {
      ++world_->launches;
      world_->last_parameter = parameter;
    });
  }
  absl::Status Close() override {
    MutexLock lock(&world_->mutex);
    world_->closed = true;
    return absl::OkStatus();
  }

 private:
  // Objects are blocks of memory; a device address is an address of this process.
  void* New(uint64_t bytes) {
    void* object = std::calloc(1, bytes);
    MutexLock lock(&world_->mutex);
    world_->objects.insert(object);
    sizes_.emplace_back(static_cast<char*>(object), bytes);
    return object;
  }
  absl::Status Delete(void* object) {
    MutexLock lock(&world_->mutex);
    if (world_->objects.erase(object) == 0) return absl::InternalError("released twice");
    std::erase_if(sizes_, [object](const auto& entry) { return entry.first == object; });
    std::free(object);
    return absl::OkStatus();
  }
  bool IsObject(const void* address) {
    MutexLock lock(&world_->mutex);
    const char* at = static_cast<const char*>(address);
    for (const auto& [start, bytes] : sizes_) {
      if (at >= start && at < start + bytes) return true;
    }
    return false;
  }
  static void Move(DeviceAddress destination, const void* source, uint64_t bytes) {
    std::memcpy(reinterpret_cast<void*>(destination), source, bytes);
  }
  absl::Status Enqueue(NativeStream, const std::string& call, std::function<void()> work) {
    MutexLock lock(&world_->mutex);
    world_->calls.push_back(call);
    pending_.push_back(std::move(work));
    return absl::OkStatus();
  }
  void Run() {
    MutexLock lock(&world_->mutex);
    for (const auto& work : std::exchange(pending_, {})) work();
  }

  const std::shared_ptr<World> world_;
  std::deque<std::function<void()>> pending_ ABSL_GUARDED_BY(world_->mutex);
  std::vector<std::pair<char*, uint64_t>> sizes_ ABSL_GUARDED_BY(world_->mutex);
};

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_FAKE_STREAM_API_H_
