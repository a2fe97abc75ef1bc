// Where a corpus runs its kernels: plain OpenCL in this process, or the daemon through the client
// library. What the corpora do is written once against this; the native one is the baseline that
// says whether a failure is the driver's own.
//
// Threads: one. Ownership: the executor owns kernels and memory until it goes or they are released.

#ifndef KCACHE_TESTS_CORPUS_EXECUTOR_H_
#define KCACHE_TESTS_CORPUS_EXECUTOR_H_

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/v1/execution.pb.h"
#include "kcache/v1/types.pb.h"

namespace kcache::corpus {

struct CorpusProgram {
  std::string name;  // for people
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // name, content
  std::vector<std::pair<std::string, std::string>> defines;  // name, value
  std::vector<std::string> flags;
  std::vector<std::array<uint32_t, 3>> local_sizes;  // it will be launched with
};

// One kernel of a program that outlives the call it is named in.
struct KernelName {
  const CorpusProgram* program = nullptr;
  std::string entry;
};

using KernelId = uint64_t;
using MemoryId = uint64_t;

struct ArgumentValue {
  enum class Kind { kBytes, kBuffer, kLocalMemory, kImage, kSampler };
  Kind kind = Kind::kBytes;
  std::string bytes;         // kBytes
  MemoryId memory = 0;       // kBuffer, kImage
  uint64_t local_bytes = 0;  // kLocalMemory
  v1::Sampler sampler;       // kSampler
};

struct LaunchSizes {
  uint32_t dimensions = 1;
  std::array<uint32_t, 3> global{1, 1, 1};
  std::optional<std::array<uint32_t, 3>> local;  // nothing: the driver's choice
  std::array<uint32_t, 3> offset{0, 0, 0};
};

class Executor {
 public:
  virtual ~Executor() = default;

  // The device's, as OpenCL has it.
  virtual std::string Vendor() const = 0;

  // Builds what is needed and answers each name, in order.
  virtual std::vector<absl::StatusOr<KernelId>> Acquire(std::span<const KernelName> names) = 0;
  virtual const v1::KernelInfo& Info(KernelId kernel) const = 0;
  virtual void ReleaseKernels() = 0;

  virtual absl::StatusOr<MemoryId> CreateBuffer(uint64_t bytes) = 0;
  virtual absl::StatusOr<MemoryId> CreateImage(const v1::ImageDescription& description) = 0;
  virtual absl::Status Write(MemoryId buffer, std::string_view bytes) = 0;
  // Pixels row by row, without gaps.
  virtual absl::Status WriteImage(MemoryId image, std::string_view pixels) = 0;
  virtual absl::StatusOr<std::string> Read(MemoryId buffer, uint64_t bytes) = 0;
  virtual absl::StatusOr<std::string> ReadImage(MemoryId image) = 0;
  virtual void ReleaseMemory() = 0;

  virtual absl::Status Launch(KernelId kernel, const LaunchSizes& sizes,
                              std::span<const ArgumentValue> arguments) = 0;
  // Waits; the first failure since the last one.
  virtual absl::Status Synchronize() = 0;
};

// Bytes of one pixel, and of all of an image's.
uint64_t PixelBytes(const v1::ImageDescription& description);
uint64_t ImageBytes(const v1::ImageDescription& description);

// On OpenCL device `index` of this process.
absl::StatusOr<std::unique_ptr<Executor>> MakeNativeExecutor(uint32_t index);

// On device OpenCL:`index` of the daemon that KCACHE_SOCKET names.
absl::StatusOr<std::unique_ptr<Executor>> MakeDaemonExecutor(uint32_t index);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_EXECUTOR_H_
