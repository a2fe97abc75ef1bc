// What the public handles point to. Plain shared state; the rules are elsewhere: gates and buffers
// in execution_stream.h, leases and events in client_impl.h.
//
// Threads: as said per class. Ownership: a handle keeps its state, that keeps its context, that
// keeps its execution stream. Nothing keeps the client, so that it can go.

#ifndef KCACHE_CLIENT_STATE_H_
#define KCACHE_CLIENT_STATE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "client/src/execution_stream.h"
#include "client/src/fork_guard.h"
#include "contract/digest.h"
#include "contract/mutex.h"
#include "kcache/artifact.h"
#include "kcache/kernel.h"
#include "kcache/v1/session.pb.h"
#include "kcache/v1/types.pb.h"

namespace kcache::internal {

class ClientImpl;
class KernelState;
class ContextState;

// A program's content, immutable once built.
struct ProgramState {
  Digest digest;
  v1::ProgramManifest manifest;
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;  // name, content: as in the manifest
};

// One device as this process uses it, through all lives of its context. A context keeps its slot, so
// the slot keeps no context: only the latest one's stream, which knows what a synchronize has to answer
// after the context has gone.
class DeviceSlot {
 public:
  DeviceSlot(DeviceId id, std::weak_ptr<ClientImpl> client)
      : id_(std::move(id)), client_(std::move(client)) {}

  const DeviceId& id() const { return id_; }
  std::shared_ptr<ClientImpl> client() const { return client_.lock(); }
  bool forked() const { return fork_guard_.forked(); }

  // The latest context, while the client or a handle keeps it.
  std::shared_ptr<ContextState> context() const {
    MutexLock lock(&mutex_);
    return context_.lock();
  }
  // The latest context's stream, ended or not; null before the first.
  std::shared_ptr<ExecutionStream> stream() const {
    MutexLock lock(&mutex_);
    return stream_;
  }
  void set_context(const std::shared_ptr<ContextState>& context);

 private:
  const DeviceId id_;
  const std::weak_ptr<ClientImpl> client_;
  const ForkGuard fork_guard_;
  mutable Mutex mutex_;
  std::weak_ptr<ContextState> context_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<ExecutionStream> stream_ ABSL_GUARDED_BY(mutex_);
};

// One life of one context. Immutable but for `kernels`, which is the executor's.
class ContextState {
 public:
  ContextState(v1::ContextRef ref, std::shared_ptr<DeviceSlot> slot,
               std::shared_ptr<ExecutionStream> stream)
      : ref(std::move(ref)), slot(std::move(slot)), stream(std::move(stream)) {}

  const v1::ContextRef ref;
  const std::shared_ptr<DeviceSlot> slot;
  const std::shared_ptr<ExecutionStream> stream;
  const ForkGuard fork_guard;

  uint64_t id() const { return ref.context_id(); }

  // A destroy is under way, or over: the host's end is expected.
  std::atomic<bool> destroying{false};

  // On the executor: the lease of each slot, while somebody holds it.
  absl::flat_hash_map<uint32_t, std::weak_ptr<KernelState>> kernels;
};

// One lease. The gate is its stream's.
class KernelState {
 public:
  KernelState(std::shared_ptr<ContextState> context, std::weak_ptr<ClientImpl> client,
              const v1::Grant& grant);
  ~KernelState();

  const std::shared_ptr<ContextState> context;
  const std::weak_ptr<ClientImpl> client;
  const KernelInfo info;
  const Origin origin;
  // Set once, on the executor: the daemon may still count the lease although its gate is closed.
  bool release_when_closed = false;
  mutable LeaseGate gate;
};

// Device memory: a buffer, an image or scratch.
class BufferState {
 public:
  BufferState(std::shared_ptr<ContextState> context, uint64_t id, uint64_t bytes, bool fell_back)
      : context(std::move(context)), id(id), bytes(bytes), fell_back(fell_back) {}
  ~BufferState() {
    if (!context->fork_guard.forked()) context->stream->ReleaseBuffer(id);
  }

  const std::shared_ptr<ContextState> context;
  const uint64_t id;
  const uint64_t bytes;
  const bool fell_back;
};

// One pin.
class ArtifactState {
 public:
  explicit ArtifactState(std::weak_ptr<ClientImpl> client) : client(std::move(client)) {}
  ~ArtifactState();

  const std::weak_ptr<ClientImpl> client;
  const ForkGuard fork_guard;
  Digest key;
  std::string format;
  std::string architecture;
  std::string build_log;
  std::vector<KernelInfo> kernels;
  Origin origin = Origin::kUnknown;
  DeviceId device;  // what it was acquired for; empty: a target

  // One of them: fetched, or mapped.
  std::string fetched;
  const std::byte* mapped = nullptr;
  size_t mapped_bytes = 0;

  std::atomic<bool> revoked{false};
};

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_STATE_H_
