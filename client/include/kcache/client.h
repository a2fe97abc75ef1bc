// A session with the node's kernel daemon, kcached.
//
//   auto client = kcache::Client::Connect();
//   auto devices = (*client)->ListDevices();
//   auto kernel = (*client)->Acquire({.program = program, .entry = "add", .device = device});
//   kernel->Launch(queue, kcache::LaunchConfig::Global({n}), a, b, sum);
//   queue.Synchronize();
//
// Threads: every method from any thread. The library keeps the session alive on threads of its own
// and needs none of the application's. Callbacks run on the library's threads and must not block.
//
// Ownership: Connect answers a shared client; the session ends with its last copy, or at Close.
// Kernels and buffers that are left over are safe to use and destroy, and answer CANCELLED; an
// Artifact's bytes stay valid. One client a process is enough.
//
// Losing the daemon: the library connects again by itself. To the same daemon the session resumes
// and nothing is lost. To another one, everything is dropped, listeners run, and the next Acquire
// takes its lease again; kernels and buffers of before answer LEASE_REVOKED.
//
// fork(): a child must connect anew. Everything inherited answers FORKED and releases nothing.

#ifndef KCACHE_CLIENT_H_
#define KCACHE_CLIENT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/artifact.h"
#include "kcache/buffer.h"
#include "kcache/device.h"
#include "kcache/error.h"
#include "kcache/image.h"
#include "kcache/kernel.h"
#include "kcache/listener.h"
#include "kcache/program.h"
#include "kcache/queue.h"

namespace kcache {

namespace internal {
class ClientImpl;
}

struct ClientOptions {
  // The daemon's socket. Empty: $KCACHE_SOCKET, else $XDG_RUNTIME_DIR/kcached/kcached.sock if it
  // exists, else /run/kcached/kcached.sock.
  std::string socket = {};

  // For operators: UTF-8, at most 128 bytes. Empty: the program's name.
  std::string name = {};

  // For Connect, and for every call that finds the connection lost.
  std::chrono::milliseconds connect_timeout{5000};

  // For one acquire, the compile included. Long: compilers take minutes now and then.
  std::chrono::milliseconds acquire_timeout{std::chrono::minutes(10)};

  // For requests that wait for no compiler and no teardown (ListDevices, Allocate, FirstN, …).
  std::chrono::milliseconds request_timeout{std::chrono::seconds(30)};

  // How many kernels the library remembers, each with its lease, so that acquiring one again makes
  // no call. 0: none, leases end with the last Kernel. At the limit, kernels that nobody holds go
  // first.
  size_t memo_capacity = 4096;

  // Messages of failures that have no caller: a listener failed, the connection was lost. Runs on a
  // thread of the library and must not block.
  std::function<void(const absl::Status&)> on_problem = {};

  // A listener that runs longer is explained to the daemon (and so to the operator who waits).
  std::chrono::milliseconds slow_listener{500};
};

struct ClearOptions {
  std::string family = {};             // empty: all
  std::optional<uint32_t> index = {};  // not given: every device of the family
  bool artifacts = false;         // artifacts of this trust domain too: the next acquire compiles
  std::chrono::milliseconds grace{0};  // for other holders; 0: the daemon's default
  OperationId operation = {};          // of the operation this is part of; none: a new one
};

struct DestroyOptions {
  std::chrono::milliseconds grace{0};
  OperationId operation = {};
};

// How an operation of this process ended. `failures` lists what could not be released, by label.
struct OperationReport {
  OperationId operation;
  std::vector<std::string> failures;
};

struct AllocateOptions {
  std::string label = {};  // for the daemon's ledger and its reports; UTF-8, at most 64 bytes
  // Allocations of one group share a fallback: after the first that did not fit into device memory,
  // the rest go to host-visible memory at once, until EndAllocationGroup.
  std::string group = {};
};

struct SessionInfo {
  std::string instance;  // of the daemon, 32 hexadecimal digits
  uint64_t session_id = 0;
  std::string daemon_version;
  std::string socket;
  bool connected = false;
};

// Counts since Connect.
struct ClientStatistics {
  uint64_t memo_hits = 0;
  uint64_t acquires_sent = 0;
  uint64_t grants = 0;
  uint64_t releases_sent = 0;
  uint64_t uploads = 0;
  uint64_t invalidations = 0;  // (operation, context, phase), duplicates not counted
  uint64_t acks_sent = 0;
  uint64_t duplicates_dropped = 0;
  uint64_t resumes = 0;        // to the same session
  uint64_t sessions_lost = 0;  // to another daemon
  uint64_t launches = 0;
};

class Client : public std::enable_shared_from_this<Client> {
 public:
  // DAEMON_UNREACHABLE, naming the socket and why, when there is no daemon.
  static absl::StatusOr<std::shared_ptr<Client>> Connect(ClientOptions options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Ends the session: everything it holds is released. Later calls fail with CANCELLED.
  void Close();

  absl::StatusOr<DeviceList> ListDevices();

  // ---- kernels

  // Blocks until the kernel is ready; usually a map lookup. While the device is being torn down,
  // waits for the end of that. Inside a listener or a use scope it answers only what is memoized.
  absl::StatusOr<Kernel> Acquire(const KernelRequest& request);

  // All in one round trip; answers come in the order of the requests, each with its own outcome.
  std::vector<absl::StatusOr<Kernel>> AcquireBatch(std::span<const KernelRequest> requests);

  // `done` runs once: inside the call when the kernel is memoized, else on a thread of the library.
  using KernelDone = std::function<void(absl::StatusOr<Kernel>)>;
  void AcquireAsync(const KernelRequest& request, KernelDone done);
  using BatchDone = std::function<void(std::vector<absl::StatusOr<Kernel>>)>;
  void AcquireBatchAsync(std::span<const KernelRequest> requests, BatchDone done);

  // Drops the memo. Leases that nobody else holds are released.
  void ForgetKernels();

  // ---- artifacts

  // The artifact alone, compiled for a device, or for a target that need not be here.
  absl::StatusOr<Artifact> AcquireArtifact(const Program& program, const DeviceId& device,
                                           Priority priority = Priority::kInteractive);
  absl::StatusOr<Artifact> AcquireArtifact(const Program& program, const CompileTarget& target,
                                           Priority priority = Priority::kInteractive);

  // ---- execution

  // Names a queue, 0 … (the daemon's limit, 16 by default) - 1; it is made at its first use.
  absl::StatusOr<Queue> GetQueue(const DeviceId& device, uint32_t number = 0);

  // OUT_OF_DEVICE_MEMORY, or LIMIT_EXCEEDED naming the limit.
  absl::StatusOr<Buffer> Allocate(const DeviceId& device, uint64_t bytes,
                                  const AllocateOptions& options = {});
  absl::StatusOr<Image> CreateImage(const DeviceId& device, const ImageDescription& description,
                                    const AllocateOptions& options = {});
  absl::Status EndAllocationGroup(const DeviceId& device, const std::string& group);

  absl::Status Synchronize(const Queue& queue) { return queue.Synchronize(); }
  // All queues; the first failure of any.
  absl::Status Synchronize(const DeviceId& device);

  // Scratch memory of at least `bytes`, the same block for the same tag, also to other clients of
  // this trust domain; it only grows. Contents do not survive anybody else's use.
  absl::StatusOr<BufferView> Scratch(const DeviceId& device, const std::string& tag,
                                     uint64_t bytes);

  // True the first n times / once / the first time for this shape: counted by the device's context,
  // so that many processes log a route once a node. A new context counts anew.
  absl::StatusOr<bool> FirstN(const DeviceId& device, const std::string& key, uint32_t n);
  absl::StatusOr<bool> Once(const DeviceId& device, const std::string& key);
  absl::StatusOr<bool> FirstShape(const DeviceId& device, const std::string& name, uint32_t m,
                                  uint32_t n, uint32_t k);

  // ---- invalidation

  Registration OnDeviceDestroy(DeviceListener listener);
  Registration OnClearAll(ClearListener listener);

  // Operations within this process's own trust domain. This process is told like every holder,
  // before and after, and the call returns when the operation is complete.
  absl::StatusOr<OperationReport> Clear(const ClearOptions& options = {});
  absl::StatusOr<OperationReport> DestroyDevice(const DeviceId& device,
                                                const DestroyOptions& options = {});

  // For the library's own tests, which bring their own transport.
  static absl::StatusOr<std::shared_ptr<Client>> Connect(
      std::shared_ptr<internal::ClientImpl> impl);

  SessionInfo session() const;
  ClientStatistics statistics() const;

 private:
  explicit Client(std::shared_ptr<internal::ClientImpl> impl);

  std::shared_ptr<internal::ClientImpl> impl_;
};

}  // namespace kcache

#endif  // KCACHE_CLIENT_H_
