#include "daemon/rpc/session_service.h"

#include <memory>
#include <utility>

#include "contract/error_reason.h"
#include "contract/grpc_status.h"

namespace kcache::rpc {
namespace {

constexpr size_t kMaxWriteBytes = 256u << 10;
constexpr absl::Duration kCloseGrace = absl::Seconds(1);

using RawReactor = grpc::ServerBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer>;

class SessionReactor : public RawReactor, public core::SessionEndpoint {
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
      if (!Handle()) {
        return Close(MakeError(v1::BAD_REQUEST, "a message that is no ClientMessage"));
      }
      if (!finished_) StartRead(&incoming_);
    });
  }

  void OnWriteDone(bool ok) override {
    executor_->Run([this, ok] {
      writing_ = false;
      outgoing_.Clear();
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
  void Wake() override {
    if (!handling_) Pump();
  }

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
  // Parsed only now, so that what waits for its turn is bytes; answered in as few writes as possible.
  bool Handle() {
    v1::ClientMessage message;
    if (!grpc::SerializationTraits<v1::ClientMessage>::Deserialize(&incoming_, &message).ok()) {
      return false;
    }
    incoming_.Clear();
    handling_ = true;
    stream_->OnMessage(message);
    handling_ = false;
    Pump();
    return true;
  }

  void Pump() {
    if (finished_ || writing_ || stream_ == nullptr) return;
    if (!broken_ && TakeOutgoing()) {
      writing_ = true;
      StartWrite(&outgoing_);
      return;
    }
    if (closing_) {
      finished_ = true;
      Finish(status_);
    }
  }

  bool TakeOutgoing() {
    v1::DaemonMessage message;
    if (!stream_->TakeOutgoing(kMaxWriteBytes, &message)) return false;
    bool own = false;
    grpc::SerializationTraits<v1::DaemonMessage>::Serialize(message, &outgoing_, &own);
    return true;
  }

  grpc::CallbackServerContext* const context_;
  core::Service* const service_;
  core::Executor* const executor_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  std::unique_ptr<core::SessionStream> stream_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
  grpc::Status status_;
  bool handling_ = false;
  bool writing_ = false;
  bool closing_ = false;
  bool broken_ = false;
  bool finished_ = false;
};

// A stream from nobody known: refused at once.
class RefusedStream : public RawReactor {
 public:
  explicit RefusedStream(const absl::Status& why) { Finish(ToGrpc(why)); }
  void OnDone() override { delete this; }
};

}  // namespace

RawReactor* SessionService::Open(grpc::CallbackServerContext* context) {
  auto peer = peers_->Find(context->peer());
  if (!peer.ok()) return new RefusedStream(peer.status());
  return new SessionReactor(context, service_, executor_, *peer);
}

}  // namespace kcache::rpc
