// The operators' interface over gRPC.
//
// Threads: gRPC's; the core is called on the executor. An operation goes on when its watcher leaves.

#ifndef KCACHE_DAEMON_RPC_ADMIN_SERVICE_H_
#define KCACHE_DAEMON_RPC_ADMIN_SERVICE_H_

#include <functional>
#include <string>

#include "daemon/core/dependencies.h"
#include "daemon/core/service.h"
#include "daemon/ops/event_log.h"
#include "daemon/rpc/connection_table.h"
#include "kcache/v1/admin.grpc.pb.h"

namespace kcache::rpc {

class AdminService : public v1::Admin::CallbackService {
 public:
  struct Hooks {
    // Completes a status with what the core does not know: sockets. On the executor.
    std::function<void(v1::StatusReply*)> complete_status;
    std::function<std::string()> metrics_text;  // on the executor
  };

  AdminService(core::Service* service, core::Executor* executor, const ConnectionTable* peers,
               ops::EventLog* events, Hooks hooks)
      : service_(service),
        executor_(executor),
        peers_(peers),
        events_(events),
        hooks_(std::move(hooks)) {}

  using Context = grpc::CallbackServerContext;
  using Unary = grpc::ServerUnaryReactor;
  using Updates = grpc::ServerWriteReactor<v1::OperationUpdate>;

  Unary* Status(Context*, const v1::StatusRequest*, v1::StatusReply*) override;
  Unary* ListDevices(Context*, const v1::ListRequest*, v1::AdminDeviceList*) override;
  Unary* ListKernels(Context*, const v1::ListRequest*, v1::KernelList*) override;
  Unary* ListArtifacts(Context*, const v1::ListRequest*, v1::ArtifactList*) override;
  Unary* ListLeases(Context*, const v1::ListRequest*, v1::LeaseList*) override;
  Unary* ListSessions(Context*, const v1::ListRequest*, v1::SessionList*) override;
  Unary* ListOperations(Context*, const v1::ListRequest*, v1::OperationList*) override;
  Unary* ListRefusals(Context*, const v1::ListRequest*, v1::RefusalList*) override;
  Unary* ListQuotas(Context*, const v1::ListRequest*, v1::QuotaList*) override;
  Unary* ClearRefusals(Context*, const v1::ClearRefusalsRequest*,
                       v1::ClearRefusalsReply*) override;
  Unary* Explain(Context*, const v1::ExplainRequest*, v1::ExplainReply*) override;
  Unary* Metrics(Context*, const v1::MetricsRequest*, v1::MetricsReply*) override;

  Updates* Clear(Context*, const v1::AdminClearRequest*) override;
  Updates* DestroyDevice(Context*, const v1::AdminDestroyRequest*) override;
  Updates* ResetDevices(Context*, const v1::ResetDevicesRequest*) override;
  Updates* DeviceUp(Context*, const v1::DeviceUpRequest*) override;
  Updates* Rescan(Context*, const v1::RescanRequest*) override;
  Updates* WatchOperation(Context*, const v1::WatchOperationRequest*) override;

  grpc::ServerWriteReactor<v1::Event>* Events(Context*, const v1::EventsRequest*) override;

 private:
  template <class Reply>
  Unary* Answer(Context* context, Reply* reply, core::Function<Reply()> ask);
  Updates* Watch(Context* context,
                 core::Function<uint64_t(const core::Peer&, core::OperationWatcher)> start);

  core::Service* const service_;
  core::Executor* const executor_;
  const ConnectionTable* const peers_;
  ops::EventLog* const events_;
  const Hooks hooks_;
};

}  // namespace kcache::rpc

#endif  // KCACHE_DAEMON_RPC_ADMIN_SERVICE_H_
