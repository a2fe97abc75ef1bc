// The Service: takes what transports bring to the part that handles it.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_SERVICE_IMPL_H_
#define KCACHE_DAEMON_CORE_SERVICE_IMPL_H_

#include <memory>
#include <string>
#include <vector>

#include "daemon/core/acquire.h"
#include "daemon/core/context_table.h"
#include "daemon/core/core.h"
#include "daemon/core/operation.h"
#include "daemon/core/service.h"
#include "daemon/core/teardown.h"

namespace kcache::core {

class SessionStreamImpl;

class ServiceImpl : public Service, private ContextOwner {
 public:
  ServiceImpl(Options options, Dependencies dependencies);
  ~ServiceImpl() override;

  void Start(Function<void()> ready) override;
  void Shutdown(Function<void()> done) override;

  std::unique_ptr<SessionStream> OpenStream(const Peer& peer, SessionEndpoint* endpoint) override;
  void StreamClosed(std::unique_ptr<SessionStream> stream) override;
  void ProcessExited(const Peer& peer) override;

  absl::StatusOr<v1::MissingReply> Missing(const Peer& peer,
                                           const v1::MissingRequest& request) override;
  absl::Status AddBlob(const Peer& peer, const v1::BlobCredentials& credentials,
                       const Digest& digest, std::string content) override;
  void UploadProgress(const v1::BlobCredentials& credentials, const Digest& program) override;
  absl::StatusOr<v1::UploadReply> CommitProgram(const Peer& peer,
                                                const v1::BlobCredentials& credentials,
                                                const v1::ProgramManifest& manifest) override;
  absl::StatusOr<ArtifactPtr> Fetch(const Peer& peer, const v1::FetchRequest& request) override;

  v1::StatusReply Status() override;
  v1::AdminDeviceList Devices(const v1::ListRequest& request) override;
  v1::KernelList Kernels(const v1::ListRequest& request) override;
  v1::ArtifactList Artifacts(const v1::ListRequest& request) override;
  v1::LeaseList Leases(const v1::ListRequest& request) override;
  v1::SessionList Sessions(const v1::ListRequest& request) override;
  v1::OperationList Operations() override;
  v1::RefusalList Refusals() override;
  v1::QuotaList Quotas() override;
  v1::ClearRefusalsReply ClearRefusals(const Peer& who,
                                       const v1::ClearRefusalsRequest& request) override;
  v1::ExplainReply Explain(const v1::ExplainRequest& request) override;

  uint64_t StartClear(const Peer& who, const v1::AdminClearRequest& request,
                      OperationWatcher watcher) override;
  uint64_t StartDestroy(const Peer& who, const v1::AdminDestroyRequest& request,
                        OperationWatcher watcher) override;
  uint64_t StartReset(const Peer& who, OperationWatcher watcher) override;
  uint64_t StartDeviceUp(const Peer& who, const v1::DeviceUpRequest& request,
                         OperationWatcher watcher) override;
  uint64_t StartRescan(const Peer& who, OperationWatcher watcher) override;
  uint64_t Watch(const std::string& operation_id, OperationWatcher watcher) override;
  void Unwatch(uint64_t watch) override;

 private:
  friend class SessionStreamImpl;

  // Session events (session_events.cc).
  void OnHello(SessionStreamImpl* stream, const v1::Hello& hello);
  void OnEvent(Session* session, const v1::ClientEvent& event);
  void OnClear(Session* session, const v1::ClearRequest& request);
  void OnDestroyDevice(Session* session, const v1::DestroyDeviceRequest& request);
  void OnListDevices(Session* session, const v1::ListDevicesRequest& request);
  // Operations of sessions answer with OperationDone.
  void AnswerOperation(Session* session, uint64_t request_id, const OperationPtr& operation);
  absl::StatusOr<Session*> SessionOf(const Peer& peer, const v1::BlobCredentials& credentials);

  void Probe(Function<void()> done);
  void RetireIdle();

  // ContextOwner
  void OnContextLost(Context* context) override;
  void OnContextExit(Context* context, const HostExit& exit) override;
  void OnPhysicalLoss(Context* context, const absl::Status& why) override;
  void OnContextUsage(Context* context) override;

  Core core_;
  ContextTable contexts_;
  Acquirer acquirer_;
  OperationTable operations_;
  Teardowns teardowns_;
  absl::Duration started_;
};

// One stream: unbound until its Hello.
class SessionStreamImpl : public SessionStream {
 public:
  SessionStreamImpl(ServiceImpl* service, Peer peer, SessionEndpoint* endpoint)
      : service_(service), peer_(std::move(peer)), endpoint_(endpoint) {}

  void OnMessage(const v1::ClientMessage& message) override;
  bool TakeOutgoing(size_t max_bytes, v1::DaemonMessage* message) override;

  const Peer& peer() const { return peer_; }
  SessionEndpoint* endpoint() const { return endpoint_; }
  SessionId session_id() const { return session_id_; }
  void Bind(SessionId session) { session_id_ = session; }
  // Refuses the stream: one Failure, then the end.
  void Refuse(const absl::Status& why);

 private:
  // The session this stream speaks for; null once it has ended or moved to another stream.
  Session* session();

  ServiceImpl* const service_;
  const Peer peer_;
  SessionEndpoint* const endpoint_;
  SessionId session_id_ = 0;
  bool refused_ = false;
  v1::DaemonMessage last_words_;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_SERVICE_IMPL_H_
