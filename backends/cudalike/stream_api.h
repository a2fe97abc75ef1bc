// What the CUDA driver API and the HIP runtime API have in common, as StreamContext needs it: one
// device, streams in order, events, modules, linear memory. A provider translates each call to one
// call of its API and every failure to a typed status; it holds no state beyond the context.
//
// Threads: any, several at once; a thread calls MakeCurrent before anything else of a sequence.
// Ownership: what a call returns is the caller's to give back through the matching call.
//
// Errors: KERNEL_FAULT and DEVICE_LOST mean that the context is dead.
#ifndef KCACHE_BACKENDS_CUDALIKE_STREAM_API_H_
#define KCACHE_BACKENDS_CUDALIKE_STREAM_API_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/sdk/driver.h"
#include "kcache/v1/backend.pb.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend::cudalike {

// Opaque objects of the API.
using NativeModule = void*;
using NativeFunction = void*;
using NativeStream = void*;
using NativeEvent = void*;
using DeviceAddress = uint64_t;

// Page-locked host memory that kernels can address.
struct HostMemory {
  char* host = nullptr;
  DeviceAddress device = 0;
};

class StreamApi {
 public:
  virtual ~StreamApi() = default;

  // Binds the context to the calling thread.
  virtual absl::Status MakeCurrent() = 0;

  // `statistics` is added to by what the driver compiled.
  virtual absl::StatusOr<NativeModule> LoadModule(const v1::Artifact& artifact,
                                                  LoadStatistics* statistics) = 0;
  virtual absl::Status UnloadModule(NativeModule module) = 0;
  virtual absl::StatusOr<NativeFunction> GetFunction(NativeModule module,
                                                     const std::string& name) = 0;
  // Completes `info` by what the driver tells, and checks what it holds already.
  virtual absl::Status Describe(NativeFunction function, v1::KernelInfo* info) = 0;
  // Raises the function's limit of dynamic shared memory as far as the device allows beside its
  // static use. Returns that limit in bytes.
  virtual absl::StatusOr<uint32_t> RaiseDynamicSharedMemory(NativeFunction function,
                                                            const v1::KernelInfo& info) = 0;

  virtual absl::StatusOr<DeviceAddress> AllocateDevice(uint64_t bytes) = 0;
  virtual absl::Status FreeDevice(DeviceAddress address) = 0;
  virtual absl::StatusOr<HostMemory> AllocateHost(uint64_t bytes) = 0;
  virtual absl::Status FreeHost(const HostMemory& memory) = 0;

  virtual absl::StatusOr<NativeStream> CreateStream() = 0;
  virtual absl::Status DestroyStream(NativeStream stream) = 0;

  // Asynchronous in `stream` where the host memory is page-locked. From pageable memory the bytes
  // have been read when CopyToDevice returns; to pageable memory they have arrived when CopyToHost
  // returns.
  virtual absl::Status CopyToDevice(DeviceAddress destination, const void* source, uint64_t bytes,
                                    NativeStream stream) = 0;
  virtual absl::Status CopyToHost(void* destination, DeviceAddress source, uint64_t bytes,
                                  NativeStream stream) = 0;
  virtual absl::Status CopyOnDevice(DeviceAddress destination, DeviceAddress source, uint64_t bytes,
                                    NativeStream stream) = 0;
  // `count` elements of `width` bytes (1, 2 or 4); `destination` is aligned to `width`.
  virtual absl::Status Set(DeviceAddress destination, uint32_t value, uint32_t width,
                           uint64_t count, NativeStream stream) = 0;

  virtual absl::StatusOr<NativeEvent> CreateEvent() = 0;
  virtual absl::Status DestroyEvent(NativeEvent event) = 0;
  virtual absl::Status RecordEvent(NativeEvent event, NativeStream stream) = 0;
  // Whether everything before the event is done.
  virtual absl::StatusOr<bool> QueryEvent(NativeEvent event) = 0;
  // Blocks, without spinning, until it is.
  virtual absl::Status WaitEvent(NativeEvent event) = 0;

  // `parameters[i]` points to the i-th argument's value, read during the call.
  virtual absl::Status Launch(NativeFunction function, const Extent& grid, const Extent& block,
                              uint32_t dynamic_shared_bytes, NativeStream stream,
                              void** parameters) = 0;

  // Gives the context back. Nothing else is called afterwards.
  virtual absl::Status Close() = 0;
};

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_STREAM_API_H_
