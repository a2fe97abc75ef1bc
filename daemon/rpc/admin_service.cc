#include "daemon/rpc/admin_service.h"

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "contract/grpc_status.h"

namespace kcache::rpc {
namespace {

constexpr size_t kEventBatch = 256;

// Streams an operation's updates. Between two writes only the newest one counts, except the last.
// State belongs to the executor.
class UpdateReactor : public grpc::ServerWriteReactor<v1::OperationUpdate> {
 public:
  UpdateReactor(core::Service* service, core::Executor* executor, absl::StatusOr<core::Peer> peer,
                core::Function<uint64_t(const core::Peer&, core::OperationWatcher)> start)
      : service_(service), executor_(executor) {
    if (!peer.ok()) {
      Finish(ToGrpc(peer.status()));
      finished_ = true;
      return;
    }
    executor_->Run([this, peer = *peer, start = std::move(start)]() mutable {
      watch_ = start(peer, [this](const v1::OperationUpdate& update) {
        next_ = update;
        has_next_ = true;
        ended_ |= update.has_result();
        Pump();
      });
    });
  }

  void OnWriteDone(bool ok) override {
    executor_->Run([this, ok] {
      writing_ = false;
      if (!ok) gone_ = true;
      Pump();
    });
  }
  void OnCancel() override {
    executor_->Run([this] {
      gone_ = true;
      Pump();
    });
  }
  void OnDone() override {
    executor_->Run([this] {
      if (watch_ != 0) service_->Unwatch(watch_);
      delete this;
    });
  }

 private:
  void Pump() {
    if (finished_ || writing_) return;
    if (has_next_ && !gone_) {
      current_ = std::move(next_);
      next_.Clear();
      has_next_ = false;
      writing_ = true;
      StartWrite(&current_);
      return;
    }
    if (!gone_ && !(ended_ && !has_next_)) return;
    finished_ = true;
    Finish(gone_ ? grpc::Status::CANCELLED : grpc::Status::OK);
  }

  core::Service* const service_;
  core::Executor* const executor_;
  uint64_t watch_ = 0;
  v1::OperationUpdate current_, next_;
  bool has_next_ = false, ended_ = false, gone_ = false, writing_ = false, finished_ = false;
};

// Streams events; with `follow`, new ones as they come.
class EventReactor : public grpc::ServerWriteReactor<v1::Event> {
 public:
  EventReactor(ops::EventLog* events, core::Executor* executor, const v1::EventsRequest& request)
      : events_(events), executor_(executor), follow_(request.follow()), last_(request.since()) {
    if (follow_) {
      follower_ = events_->Follow([executor, shared = self_] {
        // Behind the event's own step; the reactor may be gone by then.
        executor->Post([shared] {
          if (*shared != nullptr) (*shared)->Pump();
        });
      });
    }
    executor_->Run([this] { Pump(); });
  }

  void OnWriteDone(bool ok) override {
    executor_->Run([this, ok] {
      writing_ = false;
      gone_ |= !ok;
      Pump();
    });
  }
  void OnCancel() override {
    executor_->Run([this] {
      gone_ = true;
      Pump();
    });
  }
  void OnDone() override {
    executor_->Run([this] {
      *self_ = nullptr;
      if (follow_) events_->Unfollow(follower_);
      delete this;
    });
  }

 private:
  void Pump() {
    if (finished_ || writing_) return;
    if (gone_) {
      finished_ = true;
      Finish(grpc::Status::CANCELLED);
      return;
    }
    if (queue_.empty()) {
      for (v1::Event& event : events_->Read(last_, kEventBatch)) queue_.push_back(std::move(event));
    }
    if (!queue_.empty()) {
      current_ = std::move(queue_.front());
      queue_.pop_front();
      last_ = current_.number();
      writing_ = true;
      StartWrite(&current_);
      return;
    }
    if (follow_) return;
    finished_ = true;
    Finish(grpc::Status::OK);
  }

  ops::EventLog* const events_;
  core::Executor* const executor_;
  const bool follow_;
  const std::shared_ptr<EventReactor*> self_ = std::make_shared<EventReactor*>(this);
  uint64_t follower_ = 0;
  uint64_t last_;
  std::deque<v1::Event> queue_;
  v1::Event current_;
  bool gone_ = false, writing_ = false, finished_ = false;
};

}  // namespace

template <class Reply>
AdminService::Unary* AdminService::Answer(Context* context, Reply* reply,
                                          core::Function<Reply()> ask) {
  Unary* reactor = context->DefaultReactor();
  if (auto peer = peers_->Find(context->peer()); !peer.ok()) {
    reactor->Finish(ToGrpc(peer.status()));
    return reactor;
  }
  executor_->Run([reply, reactor, ask = std::move(ask)]() mutable {
    *reply = ask();
    reactor->Finish(grpc::Status::OK);
  });
  return reactor;
}

AdminService::Unary* AdminService::Status(Context* context, const v1::StatusRequest*,
                                          v1::StatusReply* reply) {
  return Answer<v1::StatusReply>(context, reply, [this] {
    v1::StatusReply status = service_->Status();
    if (hooks_.complete_status) hooks_.complete_status(&status);
    return status;
  });
}

AdminService::Unary* AdminService::ListDevices(Context* context, const v1::ListRequest* request,
                                               v1::AdminDeviceList* reply) {
  return Answer<v1::AdminDeviceList>(context, reply,
                                     [this, request] { return service_->Devices(*request); });
}

AdminService::Unary* AdminService::ListKernels(Context* context, const v1::ListRequest* request,
                                               v1::KernelList* reply) {
  return Answer<v1::KernelList>(context, reply,
                                [this, request] { return service_->Kernels(*request); });
}

AdminService::Unary* AdminService::ListArtifacts(Context* context, const v1::ListRequest* request,
                                                 v1::ArtifactList* reply) {
  return Answer<v1::ArtifactList>(context, reply,
                                  [this, request] { return service_->Artifacts(*request); });
}

AdminService::Unary* AdminService::ListLeases(Context* context, const v1::ListRequest* request,
                                              v1::LeaseList* reply) {
  return Answer<v1::LeaseList>(context, reply,
                               [this, request] { return service_->Leases(*request); });
}

AdminService::Unary* AdminService::ListSessions(Context* context, const v1::ListRequest* request,
                                                v1::SessionList* reply) {
  return Answer<v1::SessionList>(context, reply,
                                 [this, request] { return service_->Sessions(*request); });
}

AdminService::Unary* AdminService::ListOperations(Context* context, const v1::ListRequest*,
                                                  v1::OperationList* reply) {
  return Answer<v1::OperationList>(context, reply, [this] { return service_->Operations(); });
}

AdminService::Unary* AdminService::ListRefusals(Context* context, const v1::ListRequest*,
                                                v1::RefusalList* reply) {
  return Answer<v1::RefusalList>(context, reply, [this] { return service_->Refusals(); });
}

AdminService::Unary* AdminService::ListQuotas(Context* context, const v1::ListRequest*,
                                              v1::QuotaList* reply) {
  return Answer<v1::QuotaList>(context, reply, [this] { return service_->Quotas(); });
}

AdminService::Unary* AdminService::ClearRefusals(Context* context,
                                                 const v1::ClearRefusalsRequest* request,
                                                 v1::ClearRefusalsReply* reply) {
  const absl::StatusOr<core::Peer> who = peers_->Find(context->peer());
  return Answer<v1::ClearRefusalsReply>(
      context, reply, [this, request, who = who.ok() ? *who : core::Peer()] {
        return service_->ClearRefusals(who, *request);
      });
}

AdminService::Unary* AdminService::Explain(Context* context, const v1::ExplainRequest* request,
                                           v1::ExplainReply* reply) {
  return Answer<v1::ExplainReply>(context, reply,
                                  [this, request] { return service_->Explain(*request); });
}

AdminService::Unary* AdminService::Metrics(Context* context, const v1::MetricsRequest*,
                                           v1::MetricsReply* reply) {
  return Answer<v1::MetricsReply>(context, reply, [this] {
    v1::MetricsReply metrics;
    if (hooks_.metrics_text) metrics.set_text(hooks_.metrics_text());
    return metrics;
  });
}

AdminService::Updates* AdminService::Watch(
    Context* context, core::Function<uint64_t(const core::Peer&, core::OperationWatcher)> start) {
  return new UpdateReactor(service_, executor_, peers_->Find(context->peer()), std::move(start));
}

AdminService::Updates* AdminService::Clear(Context* context,
                                           const v1::AdminClearRequest* request) {
  return Watch(context, [this, request = *request](const core::Peer& who,
                                                   core::OperationWatcher watcher) {
    return service_->StartClear(who, request, std::move(watcher));
  });
}

AdminService::Updates* AdminService::DestroyDevice(Context* context,
                                                   const v1::AdminDestroyRequest* request) {
  return Watch(context, [this, request = *request](const core::Peer& who,
                                                   core::OperationWatcher watcher) {
    return service_->StartDestroy(who, request, std::move(watcher));
  });
}

AdminService::Updates* AdminService::ResetDevices(Context* context,
                                                  const v1::ResetDevicesRequest*) {
  return Watch(context, [this](const core::Peer& who, core::OperationWatcher watcher) {
    return service_->StartReset(who, std::move(watcher));
  });
}

AdminService::Updates* AdminService::DeviceUp(Context* context,
                                              const v1::DeviceUpRequest* request) {
  return Watch(context, [this, request = *request](const core::Peer& who,
                                                   core::OperationWatcher watcher) {
    return service_->StartDeviceUp(who, request, std::move(watcher));
  });
}

AdminService::Updates* AdminService::Rescan(Context* context, const v1::RescanRequest*) {
  return Watch(context, [this](const core::Peer& who, core::OperationWatcher watcher) {
    return service_->StartRescan(who, std::move(watcher));
  });
}

AdminService::Updates* AdminService::WatchOperation(Context* context,
                                                    const v1::WatchOperationRequest* request) {
  return Watch(context, [this, id = request->operation_id()](const core::Peer&,
                                                             core::OperationWatcher watcher) {
    return service_->Watch(id, std::move(watcher));
  });
}

grpc::ServerWriteReactor<v1::Event>* AdminService::Events(Context* context,
                                                          const v1::EventsRequest* request) {
  if (auto peer = peers_->Find(context->peer()); !peer.ok()) {
    struct Refused : grpc::ServerWriteReactor<v1::Event> {
      explicit Refused(const absl::Status& why) { Finish(ToGrpc(why)); }
      void OnDone() override { delete this; }
    };
    return new Refused(peer.status());
  }
  return new EventReactor(events_, executor_, *request);
}

}  // namespace kcache::rpc
