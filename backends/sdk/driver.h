// What a backend implements: a family of devices, its compiler, and one context on one device.
//
// The SDK does the rest (roles, sockets, sessions, leases, fences, ledger, validation): a backend
// translates these calls to its driver API and nothing else. `backends/fake` is the template.
//
// Threads: Family and Compiler are used by one thread at a time. Context methods may be called from
// several threads at once, except that calls naming one queue are serialized by the caller (but
// WaitMarker runs beside them), and that a kernel or memory handle is never released while another call
// that names it is running. Ownership: handles are plain numbers issued by the Context, never 0,
// never reused within it; the SDK releases each exactly once, before Close(), newest first.
//
// Errors: absl::Status with a typed reason (contract/error_reason.h). A status whose reason is
// DEVICE_LOST or KERNEL_FAULT means that the context is dead: the SDK reports it and ends the process.
// With the detail "physical" the hardware reports it for the whole card.

#ifndef KCACHE_BACKENDS_SDK_DRIVER_H_
#define KCACHE_BACKENDS_SDK_DRIVER_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/error_reason.h"
#include "kcache/v1/backend.pb.h"
#include "kcache/v1/execution.pb.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend {

using ModuleHandle = uint64_t;
using KernelHandle = uint64_t;
using MemoryHandle = uint64_t;
using QueueHandle = uint64_t;
using MarkerHandle = uint64_t;

enum class MemoryKind {
  kDevice,       // the device's own memory
  kHostVisible,  // managed, pinned or host-visible memory: the fallback when kDevice is used up
};

// One kernel argument, already validated against the reflection.
struct KernelArgument {
  enum class Kind { kScalar, kBuffer, kLocalMemory, kImage, kSampler };
  Kind kind = Kind::kScalar;
  std::string_view scalar;     // kScalar: the value's bytes; valid during the call only
  MemoryHandle memory = 0;     // kBuffer, kImage
  uint64_t offset = 0;         // kBuffer: bytes from the start of the allocation
  uint64_t bytes = 0;          // kBuffer: bytes visible to the kernel; kLocalMemory: size
  const v1::Sampler* sampler = nullptr;  // kSampler: valid during the call only
};

struct Extent {
  uint32_t x = 1, y = 1, z = 1;
};

struct LaunchCommand {
  KernelHandle kernel = 0;
  Extent grid;                   // work-groups
  Extent local;                  // work-items a group
  bool driver_picks_local = false;  // OpenCL: local size NULL; then `global` counts
  Extent global;                 // work-items; always filled
  bool has_global_offset = false;
  Extent global_offset{0, 0, 0};
  uint32_t dynamic_local_bytes = 0;
  std::span<const KernelArgument> arguments;
  std::string_view push_constants;
  uint32_t repeat = 1;           // enqueue the same launch this often
  uint32_t dimensions = 0;       // 1 … 3: how many the caller named; 0: not told
};

// A part of an image, in pixels; a layer counts as the dimension after those its images have.
struct ImageRegion {
  Extent origin{0, 0, 0};
  Extent size;
};

struct LoadStatistics {
  uint64_t jit_microseconds = 0;  // compiling that the driver did at load, as far as it can be told
};

// One context on one device, in a process of its own.
class Context {
 public:
  virtual ~Context() = default;

  virtual const v1::DeviceInfo& device() const = 0;

  // Loads an artifact's binary. `statistics` is added to.
  virtual absl::StatusOr<ModuleHandle> LoadModule(const v1::Artifact& artifact,
                                                  LoadStatistics* statistics) = 0;
  virtual absl::Status UnloadModule(ModuleHandle module) = 0;

  // Resolves one entry point. `info` comes in as the artifact's reflection and goes out completed by
  // what the loaded module tells. With Vulkan this creates the pipeline.
  virtual absl::StatusOr<KernelHandle> ResolveKernel(ModuleHandle module,
                                                     const v1::Specialization& specialization,
                                                     v1::KernelInfo* info,
                                                     LoadStatistics* statistics) = 0;
  virtual absl::Status ReleaseKernel(KernelHandle kernel) = 0;

  // Out of memory is OUT_OF_DEVICE_MEMORY and leaves the context usable.
  virtual absl::StatusOr<MemoryHandle> Allocate(uint64_t bytes, MemoryKind kind) = 0;
  virtual absl::Status Free(MemoryHandle memory) = 0;

  virtual absl::StatusOr<QueueHandle> CreateQueue() = 0;
  virtual absl::Status DestroyQueue(QueueHandle queue) = 0;  // idle by then

  // Asynchronous, in order within the queue. What the arguments point to is valid during the call
  // only, except `data` of Write and `destination` of Read, which stay valid and untouched until a
  // marker recorded after the command has been waited for.
  virtual absl::Status Launch(QueueHandle queue, const LaunchCommand& command) = 0;
  virtual absl::Status Write(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                             std::string_view data) = 0;
  virtual absl::Status Read(QueueHandle queue, MemoryHandle source, uint64_t offset,
                            std::span<char> destination) = 0;
  virtual absl::Status Copy(QueueHandle queue, MemoryHandle source, uint64_t source_offset,
                            MemoryHandle destination, uint64_t destination_offset,
                            uint64_t bytes) = 0;
  virtual absl::Status Fill(QueueHandle queue, MemoryHandle destination, uint64_t offset,
                            uint64_t bytes, std::string_view pattern) = 0;

  // Images, where the API has them. Free() releases one like a buffer. The copies are ordered like
  // Copy(); pixels lie row by row in the buffer, without gaps.
  virtual absl::StatusOr<MemoryHandle> CreateImage(const v1::ImageDescription&) {
    return MakeError(v1::BAD_REQUEST, "this family has no images");
  }
  virtual absl::Status CopyBufferToImage(QueueHandle, MemoryHandle /*buffer*/, uint64_t /*offset*/,
                                         MemoryHandle /*image*/, const ImageRegion&) {
    return MakeError(v1::BAD_REQUEST, "this family has no images");
  }
  virtual absl::Status CopyImageToBuffer(QueueHandle, MemoryHandle /*image*/, const ImageRegion&,
                                         MemoryHandle /*buffer*/, uint64_t /*offset*/) {
    return MakeError(v1::BAD_REQUEST, "this family has no images");
  }

  // How often a launch made the driver compile after all, since the context was opened: late cases
  // of what LoadStatistics counts, as far as they can be told.
  virtual uint64_t late_compiles() const { return 0; }

  // Makes what is enqueued start without waiting for more.
  virtual absl::Status Flush(QueueHandle queue) = 0;

  // A marker is done when everything enqueued before it on its queue is done. WaitMarker blocks,
  // returns what failed, and frees the marker.
  virtual absl::StatusOr<MarkerHandle> RecordMarker(QueueHandle queue) = 0;
  virtual absl::Status WaitMarker(MarkerHandle marker) = 0;

  // Destroys the context itself. Nothing else is called afterwards. Failures are per label.
  virtual absl::Status Close() = 0;
};

class Compiler {
 public:
  virtual ~Compiler() = default;
  // COMPILE_FAILED with the compiler's log as message when the program is wrong.
  virtual absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request) = 0;
};

struct ContextOptions {
  uint32_t index = 0;
  std::string variant;  // "PTX" of "CUDA/PTX"; empty for the family itself
};

// A family of devices, as one backend program serves it.
class Family {
 public:
  virtual ~Family() = default;
  virtual std::string_view name() const = 0;  // "OpenCL"
  // Never fails: what is missing is said in the report.
  virtual v1::ProbeReport Probe() = 0;
  virtual absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler() = 0;
  virtual absl::StatusOr<std::unique_ptr<Context>> OpenContext(const ContextOptions& options) = 0;
};

// The main() of every backend program: parses --role=probe|compile|device, --control-fd,
// --execution-fd, --version, and serves. Returns the exit code.
int BackendMain(int argc, char** argv, std::unique_ptr<Family> family);

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_DRIVER_H_
