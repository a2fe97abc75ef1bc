// A leased kernel: one entry point of one program, loaded on one device.
//
// Threads: any thread. Ownership: a Kernel is a copyable share of one lease. The library's memo
// holds a share of its own (see ClientOptions::memo_capacity); when the last share goes, the lease
// is released, behind everything launched under it.
//
// A lease ends early when the device is destroyed, the cache is cleared or the context is lost.
// From then on Launch answers LEASE_REVOKED (DEVICE_DESTROYED, DEVICE_LOST): acquire again, which
// is a map lookup when the kernel is there.

#ifndef KCACHE_KERNEL_H_
#define KCACHE_KERNEL_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/buffer.h"
#include "kcache/device.h"
#include "kcache/launch.h"
#include "kcache/program.h"
#include "kcache/queue.h"

namespace kcache {

namespace internal {
class KernelState;
}

enum class ArgumentKind {
  kUnknown = 0,  // the driver does not tell; only the size is checked
  kScalar = 1,
  kBuffer = 2,
  kLocalMemory = 3,
  kImage = 4,
  kSampler = 5,
};

struct ArgumentInfo {
  ArgumentKind kind = ArgumentKind::kUnknown;
  uint64_t bytes = 0;  // size by value; 0: unknown
  std::string name;    // may be empty
  std::string type_name;
};

// What is known about an entry point without its source.
struct KernelInfo {
  std::string entry;
  std::string lowered_name;      // as the binary names it
  bool arguments_known = false;  // false: count and sizes are not checked
  std::vector<ArgumentInfo> arguments;
  Dim3 required_local_size;  // not given: none
  uint64_t local_memory_bytes = 0;
  uint64_t private_memory_bytes = 0;
  uint32_t max_local_size = 0;  // work-items a group; 0: the device's limit
  uint32_t push_constant_bytes = 0;
  uint32_t registers = 0;
};

// Vulkan: a specialization constant of 4 or 8 bytes, little-endian.
struct SpecializationConstant {
  uint32_t id = 0;
  uint64_t value = 0;
  uint32_t bytes = 4;
};

struct Specialization {
  std::vector<SpecializationConstant> constants;  // unique ids
  Dim3 local_size;  // what the kernel will mostly be launched with; not given: unknown
};

enum class Priority {
  kInteractive = 0,
  kPrewarm = 1,  // compiled after everything interactive
};

struct KernelRequest {
  Program program;
  std::string entry;
  DeviceId device;
  Specialization specialization = {};
  Priority priority = Priority::kInteractive;
  // DeviceInfo::global_id of `device`, if it matters that the index still means that device: after
  // a reset the request fails with ID_RETIRED.
  std::optional<uint64_t> global_id = std::nullopt;
  // For the whole acquire, compile and retries included. Not given: ClientOptions::acquire_timeout.
  std::optional<std::chrono::milliseconds> timeout = std::nullopt;
};

// How the daemon came by the kernel.
enum class Origin {
  kUnknown = 0,
  kWarm = 1,      // it was loaded
  kLoaded = 2,    // its artifact was there and was loaded now
  kCompiled = 3,  // compiled for this request
  kJoined = 4,    // joined a compile that somebody else had started
};

std::string_view OriginName(Origin origin);

// Holds off the end of a lease: while one is open, a teardown's quiesce waits for it, and launches
// of this kernel go on being accepted. Keep it short; a teardown does not wait longer than its
// grace. Inside, calls that would wait for the daemon (an acquire that is not memoized, Clear,
// DestroyDevice, ListDevices) fail with BLOCKING_IN_LISTENER; Synchronize and Read are fine.
// Close it on the thread that opened it.
class UseScope {
 public:
  UseScope() = default;
  ~UseScope();
  UseScope(UseScope&&) noexcept;
  UseScope& operator=(UseScope&&) noexcept;

 private:
  friend class Kernel;
  explicit UseScope(std::shared_ptr<internal::KernelState> state) : state_(std::move(state)) {}
  void Close();

  std::shared_ptr<internal::KernelState> state_;
};

class Kernel {
 public:
  Kernel() = default;

  bool empty() const { return state_ == nullptr; }
  const KernelInfo& info() const;
  const DeviceId& device() const;
  Origin origin() const;

  // Whether launches are still accepted, as far as this process has been told.
  bool valid() const;

  // Queues a launch. Argument count, kinds and sizes are checked against info() at once, the rest
  // by the device host: that shows at Queue::Synchronize. Allocates nothing in the steady state.
  // Blocks only while too many commands are in flight.
  template <class... Args>
  absl::Status Launch(const Queue& queue, const LaunchConfig& config, const Args&... args) const {
    if constexpr (sizeof...(Args) == 0) {
      return LaunchList(queue, config, {});
    } else {
      const std::array<Argument, sizeof...(Args)> list = {Argument(args)...};
      return LaunchList(queue, config, list);
    }
  }

  // The same with the arguments in a list.
  absl::Status LaunchList(const Queue& queue, const LaunchConfig& config,
                          std::span<const Argument> arguments) const;

  // Opens a use scope; LEASE_REVOKED once a teardown has begun to quiesce this kernel.
  absl::StatusOr<UseScope> Use() const;

  const std::shared_ptr<internal::KernelState>& state() const { return state_; }

 private:
  friend class Client;
  explicit Kernel(std::shared_ptr<internal::KernelState> state) : state_(std::move(state)) {}

  std::shared_ptr<internal::KernelState> state_;
};

}  // namespace kcache

#endif  // KCACHE_KERNEL_H_
