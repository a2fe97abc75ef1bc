// The core of kcached as its transports see it: sessions, programs, admin operations.
//
// Threads: on the executor only, unless a method says otherwise. Nothing here blocks, knows gRPC, or
// knows a GPU. Ownership: the Service owns everything below it and outlives its transports' calls.

#ifndef KCACHE_DAEMON_CORE_SERVICE_H_
#define KCACHE_DAEMON_CORE_SERVICE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/core/dependencies.h"
#include "daemon/core/limits.h"
#include "kcache/v1/admin.pb.h"
#include "kcache/v1/session.pb.h"

namespace kcache::core {

// Who is at the other end of a socket, as the kernel says (SO_PEERCRED), never as the peer says.
struct Peer {
  uid_t uid = 0;
  gid_t gid = 0;
  pid_t pid = 0;            // 0: in another pid namespace, unknown
  std::string container{};  // from its cgroup; empty: none, or cannot be told
};

// The transport's end of one session stream. Calls come from the executor and return at once.
class SessionEndpoint {
 public:
  virtual ~SessionEndpoint() = default;
  // There is something to take with SessionStream::TakeOutgoing. Not repeated until it came back empty.
  virtual void Wake() = 0;
  // Ends the stream after what was taken, with this status. The transport calls StreamClosed later.
  virtual void Close(absl::Status why) = 0;
};

// One connected stream. A session may outlive it and continue on another one.
class SessionStream {
 public:
  virtual ~SessionStream() = default;
  virtual void OnMessage(const v1::ClientMessage& message) = 0;
  // Moves queued events, oldest first, at most about `max_bytes` (always at least one, if any), into
  // `message`. False: nothing was queued.
  virtual bool TakeOutgoing(size_t max_bytes, v1::DaemonMessage* message) = 0;
};

using OperationWatcher = std::function<void(const v1::OperationUpdate&)>;

class Service {
 public:
  static std::unique_ptr<Service> Create(Options options, Dependencies dependencies);
  virtual ~Service() = default;

  // Reads durable state, probes, then serves. `ready` runs when devices are known.
  virtual void Start(Function<void()> ready) = 0;

  // Drains: no new sessions or acquires, every context torn down with the shutdown grace; `done`
  // runs when all is released, or could not be. Bounded.
  virtual void Shutdown(Function<void()> done) = 0;

  // ---- sessions. The stream object is the transport's to keep until StreamClosed.
  virtual std::unique_ptr<SessionStream> OpenStream(const Peer& peer,
                                                    SessionEndpoint* endpoint) = 0;
  // The stream is gone (the peer went, or Close): the endpoint is not called any more.
  virtual void StreamClosed(std::unique_ptr<SessionStream> stream) = 0;
  // The process behind these streams has exited (a pidfd became readable).
  virtual void ProcessExited(const Peer& peer) = 0;

  // ---- blobs. `peer` must be the session's own.
  virtual absl::StatusOr<v1::MissingReply> Missing(const Peer& peer,
                                                   const v1::MissingRequest& request) = 0;
  // `content` hashes to `digest`: the transport has verified that, off the executor.
  virtual absl::Status AddBlob(const Peer& peer, const v1::BlobCredentials& credentials,
                               const Digest& digest, std::string content) = 0;
  // An upload made progress: the uploader is not stalled.
  virtual void UploadProgress(const v1::BlobCredentials& credentials, const Digest& program) = 0;
  virtual absl::StatusOr<v1::UploadReply> CommitProgram(const Peer& peer,
                                                        const v1::BlobCredentials& credentials,
                                                        const v1::ProgramManifest& manifest) = 0;
  virtual absl::StatusOr<ArtifactPtr> Fetch(const Peer& peer, const v1::FetchRequest& request) = 0;

  // ---- operators
  virtual v1::StatusReply Status() = 0;
  virtual v1::AdminDeviceList Devices(const v1::ListRequest& request) = 0;
  virtual v1::KernelList Kernels(const v1::ListRequest& request) = 0;
  virtual v1::ArtifactList Artifacts(const v1::ListRequest& request) = 0;
  virtual v1::LeaseList Leases(const v1::ListRequest& request) = 0;
  virtual v1::SessionList Sessions(const v1::ListRequest& request) = 0;
  virtual v1::OperationList Operations() = 0;
  virtual v1::RefusalList Refusals() = 0;
  virtual v1::QuotaList Quotas() = 0;
  virtual v1::ClearRefusalsReply ClearRefusals(const Peer& who,
                                               const v1::ClearRefusalsRequest& request) = 0;
  virtual v1::ExplainReply Explain(const v1::ExplainRequest& request) = 0;

  // Operations. The watcher hears updates, the last one with a result; it may hear that one inside
  // the call. A failed start is a last update, too. `Unwatch` by the returned id when it goes away.
  virtual uint64_t StartClear(const Peer& who, const v1::AdminClearRequest& request,
                              OperationWatcher watcher) = 0;
  virtual uint64_t StartDestroy(const Peer& who, const v1::AdminDestroyRequest& request,
                                OperationWatcher watcher) = 0;
  virtual uint64_t StartReset(const Peer& who, OperationWatcher watcher) = 0;
  virtual uint64_t StartDeviceUp(const Peer& who, const v1::DeviceUpRequest& request,
                                 OperationWatcher watcher) = 0;
  virtual uint64_t StartRescan(const Peer& who, OperationWatcher watcher) = 0;
  virtual uint64_t Watch(const std::string& operation_id, OperationWatcher watcher) = 0;
  virtual void Unwatch(uint64_t watch) = 0;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_SERVICE_H_
