#include "daemon/rpc/session_service.h"

#include <memory>
#include <utility>

#include "contract/grpc_status.h"

namespace kcache::rpc {
namespace {

constexpr size_t kMaxWriteBytes = 256u << 10;
constexpr absl::Duration kCloseGrace = absl::Seconds(1);

class SessionReactor : public grpc::ServerBidiReactor<v1::ClientMessage, v1::DaemonMessage>,
                       public core::SessionEndpoint {
 public:
  SessionReactor(grpc::CallbackServerContext* context, core::Service* service,
                 core::Executor* executor, const core::Peer& peer)
      : context_(context), service_(service), executor_(executor) {
    executor_->Run([this, peer] {
      stream_ = service_->OpenStream(peer, this);
      StartRead(&incoming_);
    });
  }

  // ---- gRPC's side
  void OnReadDone(bool ok) override {
    executor_->Run([this, ok] {
      if (!ok) {
        closing_ = true;  // the client is through; what is queued still leaves
        Pump();
        return;
      }
      stream_->OnMessage(incoming_);
      incoming_.Clear();
      if (!finished_) StartRead(&incoming_);
    });
  }

  void OnWriteDone(bool ok) override {
    executor_->Run([this, ok] {
      writing_ = false;
      if (!ok) broken_ = closing_ = true;
      Pump();
    });
  }

  void OnCancel() override {
    executor_->Run([this] {
      broken_ = closing_ = true;
      Pump();
    });
  }

  void OnDone() override {
    executor_->Run([this] {
      *alive_ = false;
      service_->StreamClosed(std::move(stream_));
      delete this;
    });
  }

  // ---- the core's side, on the executor
  void Wake() override { Pump(); }

  void Close(absl::Status why) override {
    if (closing_) return;
    closing_ = true;
    status_ = ToGrpc(why);
    Pump();
    if (finished_) return;
    // A client that does not read must not keep the stream open.
    executor_->RunAfter(kCloseGrace, [this, alive = alive_] {
      if (*alive && !finished_) context_->TryCancel();
    });
  }

 private:
  void Pump() {
    if (finished_ || writing_ || stream_ == nullptr) return;
    outgoing_.Clear();
    if (!broken_ && stream_->TakeOutgoing(kMaxWriteBytes, &outgoing_)) {
      writing_ = true;
      StartWrite(&outgoing_);
      return;
    }
    if (closing_) {
      finished_ = true;
      Finish(status_);
    }
  }

  grpc::CallbackServerContext* const context_;
  core::Service* const service_;
  core::Executor* const executor_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<core::SessionStream> stream_;
  v1::ClientMessage incoming_;
  v1::DaemonMessage outgoing_;
  grpc::Status status_;
  bool writing_ = false;
  bool closing_ = false;
  bool broken_ = false;
  bool finished_ = false;
};

// A stream from nobody known: refused at once.
class RefusedStream : public grpc::ServerBidiReactor<v1::ClientMessage, v1::DaemonMessage> {
 public:
  explicit RefusedStream(const absl::Status& why) { Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerBidiReactor<v1::ClientMessage, v1::DaemonMessage>* SessionService::Open(
    grpc::CallbackServerContext* context) {
  auto peer = peers_->Find(context->peer());
  if (!peer.ok()) return new RefusedStream(peer.status());
  return new SessionReactor(context, service_, executor_, *peer);
}

}  // namespace kcache::rpc
