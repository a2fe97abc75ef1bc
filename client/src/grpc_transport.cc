#include "client/src/grpc_transport.h"

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "client/src/callback_scope.h"
#include "client/src/socket_error.h"
#include "contract/error_reason.h"
#include "contract/grpc_status.h"
#include "contract/mutex.h"
#include "kcache/v1/execution.grpc.pb.h"
#include "kcache/v1/session.grpc.pb.h"

namespace kcache::internal {
namespace {

constexpr char kExecutionMethod[] = "/kcache.v1.Execution/Attach";
constexpr size_t kBlobPieceBytes = 1u << 20;

// A channel of its own each time: gRPC's shared ones remember failures and back off by themselves.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& target) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetMaxReceiveMessageSize(-1);  // the daemon is trusted; it bounds what it sends
  arguments.SetMaxSendMessageSize(-1);     // what is too large gets the daemon's typed answer
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  // A path is no host name.
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "kcached");
  return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

// Something that holds a channel.
class ChannelHolder {
 public:
  virtual ~ChannelHolder() = default;
  virtual void Abandon() {}
};

// Owns the streams, from their start until gRPC is done with them, and destroys them on a thread of
// its own: the last channel to go joins gRPC's callback threads, so it must not go on one of them.
// A process must not end under them either: stopping waits.
class StreamKeeper {
 public:
  StreamKeeper() : state_(std::make_shared<State>()) {
    thread_ = std::thread([state = state_] { Serve(state); });
  }
  ~StreamKeeper() {
    {
      MutexLock lock(&state_->mutex);
      state_->stopping = true;
      state_->changed.NotifyAll();
    }
    // In a callback it would wait for itself: what a callback let go of may have been the last to need
    // the streams. Whoever closes a client waits for them before (AwaitEnds).
    if (CallbackScope::active()) {
      thread_.detach();
    } else {
      thread_.join();
    }
  }

  // What the streams know of it: they may outlive it.
  struct State {
    Mutex mutex;
    CondVar changed;
    bool stopping ABSL_GUARDED_BY(mutex) = false;
    std::map<const void*, std::shared_ptr<ChannelHolder>> live ABSL_GUARDED_BY(mutex);
    std::vector<std::shared_ptr<ChannelHolder>> done ABSL_GUARDED_BY(mutex);

    void Add(std::shared_ptr<ChannelHolder> holder) {
      MutexLock lock(&mutex);
      const void* const name = holder.get();
      live[name] = std::move(holder);
    }
    void Done(const ChannelHolder* holder) {
      MutexLock lock(&mutex);
      auto node = live.extract(holder);
      if (!node.empty()) done.push_back(std::move(node.mapped()));
      changed.NotifyAll();
    }
    void AwaitEnds(std::chrono::milliseconds patience) {
      const auto deadline = std::chrono::steady_clock::now() + patience;
      MutexLock lock(&mutex);
      while (!live.empty() && changed.WaitUntil(&mutex, deadline)) {
      }
    }
  };
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  // How long a stream may take to end by itself.
  static constexpr std::chrono::milliseconds kPatience{500};
  // How often to look whether the other references are gone: they last as long as a callback.
  static constexpr std::chrono::milliseconds kGlance{5};

  static void Serve(const std::shared_ptr<State>& state) {
    using Clock = std::chrono::steady_clock;
    std::optional<Clock::time_point> deadline;
    // Done, but somebody still refers to them: the last reference has to be the one here.
    std::vector<std::shared_ptr<ChannelHolder>> held;
    while (true) {
      std::erase_if(held, [](const auto& holder) { return holder.use_count() == 1; });
      std::vector<std::shared_ptr<ChannelHolder>> abandon;
      {
        MutexLock lock(&state->mutex);
        if (state->done.empty()) {
          if (state->stopping && state->live.empty() && held.empty()) return;
          if (state->stopping && !deadline.has_value()) deadline = Clock::now() + kPatience;
          if (held.empty() && !state->stopping) {
            state->changed.Wait(&state->mutex);
          } else {
            state->changed.WaitUntil(&state->mutex, Clock::now() + kGlance);
          }
        }
        if (deadline.has_value() && Clock::now() > *deadline) {
          for (auto& [name, holder] : state->live) abandon.push_back(holder);
          deadline = Clock::now() + kPatience;
        }
        for (auto& holder : state->done) held.push_back(std::move(holder));
        state->done.clear();
      }
      for (auto& holder : abandon) holder->Abandon();
    }
  }

  const std::shared_ptr<State> state_;
  std::thread thread_;
};

// Kept by the keeper from Begin to OnDone.
template <class Request, class Response>
class StreamReactor : public grpc::ClientBidiReactor<Request, Response>, public ChannelHolder {
 protected:
  explicit StreamReactor(std::shared_ptr<StreamKeeper::State> keeper)
      : keeper_(std::move(keeper)) {}

  void Begin(std::shared_ptr<ChannelHolder> self) {
    keeper_->Add(std::move(self));
    this->AddHold();  // writes come from outside of the reactions
    this->StartCall();
  }

  // Nothing more is sent. Idempotent.
  void EndWrites() {
    {
      MutexLock lock(&mutex_);
      if (std::exchange(ended_, true)) return;
      if (starting_) return;  // by TryWrite, when it is through
    }
    Finish();
  }

  // Starts the one write there may be; nothing happens once the writes have ended.
  template <class Message>
  void TryWrite(const Message* message) {
    {
      MutexLock lock(&mutex_);
      if (ended_) return;
      starting_ = true;
    }
    this->StartWrite(message);
    {
      MutexLock lock(&mutex_);
      starting_ = false;
      if (!ended_) return;
    }
    Finish();
  }

  // The last thing that OnDone does: this object may be gone afterwards.
  void End() { keeper_->Done(this); }

  grpc::ClientContext context_;

 private:
  void Finish() {
    this->StartWritesDone();
    this->RemoveHold();
  }

  Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool starting_ ABSL_GUARDED_BY(mutex_) = false;
  const std::shared_ptr<StreamKeeper::State> keeper_;
};

// ---- session ------------------------------------------------------------------------------------

class GrpcSessionStream final : public SessionStream,
                                public StreamReactor<v1::ClientMessage, v1::DaemonMessage> {
 public:
  GrpcSessionStream(std::string socket, std::shared_ptr<SessionStreamObserver> observer,
                    std::shared_ptr<StreamKeeper::State> keeper)
      : StreamReactor(std::move(keeper)),
        socket_(std::move(socket)),
        stub_(v1::Session::NewStub(MakeChannel("unix:" + socket_))),
        observer_(std::move(observer)) {}

  void Start(const std::shared_ptr<GrpcSessionStream>& self) {
    stub_->async()->Open(&context_, this);
    StartRead(&incoming_);
    Begin(self);
  }

  void Write(v1::ClientMessage message) override {
    outgoing_ = std::move(message);
    TryWrite(&outgoing_);
  }

  void Close() override { EndWrites(); }
  void Abandon() override {
    context_.TryCancel();
    EndWrites();
  }

  void OnReadDone(bool ok) override {
    CallbackScope scope;
    if (!ok) {
      // The daemon has ended the stream, or it broke.
      EndWrites();
      return;
    }
    read_any_ = true;
    // The next read starts afterwards: two of these on two threads would lose the order.
    observer_->OnMessage(std::exchange(incoming_, {}));
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    CallbackScope scope;
    if (ok) observer_->OnWritten();
  }

  void OnDone(const grpc::Status& status) override {
    CallbackScope scope;
    absl::Status why = FromGrpc(status);
    if (!why.ok() && ReasonOf(why) == v1::ERROR_REASON_UNSPECIFIED) {
      why = read_any_
                ? MakeError(v1::CONNECTION_LOST, absl::StrCat("the daemon at ", socket_,
                                                              " is gone: ", status.error_message()))
                : WhyUnreachable(socket_, status.error_message());
    }
    std::exchange(observer_, nullptr)->OnClosed(why);
    End();
  }

 private:
  const std::string socket_;
  const std::unique_ptr<v1::Session::Stub> stub_;
  std::shared_ptr<SessionStreamObserver> observer_;
  v1::DaemonMessage incoming_;
  v1::ClientMessage outgoing_;
  bool read_any_ = false;
};

// ---- execution ----------------------------------------------------------------------------------

// Requests are serialized already; replies are parsed here.
class GrpcExecutionTransport final : public ExecutionTransport,
                                     public StreamReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  GrpcExecutionTransport(const std::string& target, std::shared_ptr<ExecutionObserver> observer,
                         std::shared_ptr<StreamKeeper::State> keeper)
      : StreamReactor(std::move(keeper)),
        stub_(MakeChannel(target)),
        observer_(std::move(observer)) {}

  void Start(const std::shared_ptr<GrpcExecutionTransport>& self) {
    stub_.PrepareBidiStreamingCall(&context_, kExecutionMethod, {}, this);
    StartRead(&incoming_);
    Begin(self);
  }

  void Write(std::string message) override {
    // The slice refers to the string and frees it: no copy.
    auto* held = new std::string(std::move(message));
    const grpc::Slice slice(
        held->data(), held->size(), [](void* string) { delete static_cast<std::string*>(string); },
        held);
    outgoing_ = grpc::ByteBuffer(&slice, 1);
    TryWrite(&outgoing_);
  }

  void Close() override { Abandon(); }
  void Abandon() override {
    context_.TryCancel();
    EndWrites();
  }

  void OnReadDone(bool ok) override {
    CallbackScope scope;
    if (!ok) {
      EndWrites();
      return;
    }
    v1::ExecutionReply reply;
    const grpc::Status parsed =
        grpc::SerializationTraits<v1::ExecutionReply>::Deserialize(&incoming_, &reply);
    incoming_.Clear();
    if (!parsed.ok()) {
      context_.TryCancel();
      EndWrites();
      return;
    }
    // The next read starts afterwards: two of these on two threads would lose the order.
    observer_->OnReply(reply);
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    CallbackScope scope;
    if (ok) observer_->OnWritten();
  }

  void OnDone(const grpc::Status& status) override {
    CallbackScope scope;
    absl::Status why = FromGrpc(status);
    if (why.ok()) why = absl::UnavailableError("it closed the connection");
    std::exchange(observer_, nullptr)->OnClosed(why);
    End();
  }

 private:
  grpc::GenericStub stub_;
  std::shared_ptr<ExecutionObserver> observer_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
};

// ---- blobs --------------------------------------------------------------------------------------

class UploadReactor final : public grpc::ClientWriteReactor<v1::UploadRequest> {
 public:
  UploadReactor(v1::Blobs::Stub* stub, v1::UploadRequest first, std::vector<BlobPart> blobs,
                std::function<void(absl::StatusOr<v1::UploadReply>)> done)
      : first_(std::move(first)), blobs_(std::move(blobs)), done_(std::move(done)) {
    stub->async()->Upload(&context_, &reply_, this);
    message_ = first_;
    // A program whose blobs the daemon has all is committed by one message.
    message_.set_commit(blobs_.empty());
    StartWrite(&message_);
    StartCall();
  }

  void OnWriteDone(bool ok) override {
    if (!ok || message_.commit()) {
      StartWritesDone();
      return;
    }
    message_.Clear();
    if (blob_ == blobs_.size()) {
      message_.set_commit(true);
      StartWrite(&message_);
      return;
    }
    const BlobPart& blob = blobs_[blob_];
    if (offset_ == 0) message_.set_digest(blob.digest);
    const size_t piece = std::min(kBlobPieceBytes, blob.data->size() - offset_);
    message_.set_data(blob.data->substr(offset_, piece));
    offset_ += piece;
    if (offset_ == blob.data->size()) {
      ++blob_;
      offset_ = 0;
    }
    StartWrite(&message_);
  }

  void OnDone(const grpc::Status& status) override {
    CallbackScope scope;
    auto done = std::move(done_);
    absl::StatusOr<v1::UploadReply> reply = std::move(reply_);
    if (!status.ok()) reply = FromGrpc(status);
    delete this;
    done(std::move(reply));
  }

 private:
  grpc::ClientContext context_;
  const v1::UploadRequest first_;
  const std::vector<BlobPart> blobs_;
  size_t blob_ = 0;
  size_t offset_ = 0;
  v1::UploadRequest message_;
  v1::UploadReply reply_;
  std::function<void(absl::StatusOr<v1::UploadReply>)> done_;
};

class FetchReactor final : public grpc::ClientReadReactor<v1::FetchReply> {
 public:
  FetchReactor(v1::Blobs::Stub* stub, v1::FetchRequest request,
               std::function<void(absl::StatusOr<std::string>)> done)
      : request_(std::move(request)), done_(std::move(done)) {
    stub->async()->Fetch(&context_, &request_, this);
    StartRead(&reply_);
    StartCall();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    bytes_ += reply_.data();
    StartRead(&reply_);
  }

  void OnDone(const grpc::Status& status) override {
    CallbackScope scope;
    auto done = std::move(done_);
    absl::StatusOr<std::string> bytes = std::move(bytes_);
    if (!status.ok()) bytes = FromGrpc(status);
    delete this;
    done(std::move(bytes));
  }

 private:
  grpc::ClientContext context_;
  const v1::FetchRequest request_;
  v1::FetchReply reply_;
  std::string bytes_;
  std::function<void(absl::StatusOr<std::string>)> done_;
};

struct BlobsStub final : ChannelHolder {
  explicit BlobsStub(const std::string& target) : stub(v1::Blobs::NewStub(MakeChannel(target))) {}
  const std::unique_ptr<v1::Blobs::Stub> stub;
};

class GrpcTransport final : public Transport {
 public:
  explicit GrpcTransport(std::string socket) : socket_(std::move(socket)) {}
  ~GrpcTransport() override {
    if (blobs_ == nullptr) return;
    keeper_.state()->Add(blobs_);
    keeper_.state()->Done(blobs_.get());
  }

  std::shared_ptr<SessionStream> OpenSession(
      std::shared_ptr<SessionStreamObserver> observer) override {
    auto stream =
        std::make_shared<GrpcSessionStream>(socket_, std::move(observer), keeper_.state());
    stream->Start(stream);
    return stream;
  }

  std::shared_ptr<ExecutionTransport> OpenExecution(
      const std::string& target, std::shared_ptr<ExecutionObserver> observer) override {
    auto transport =
        std::make_shared<GrpcExecutionTransport>(target, std::move(observer), keeper_.state());
    transport->Start(transport);
    return transport;
  }

  void Missing(v1::MissingRequest request,
               std::function<void(absl::StatusOr<v1::MissingReply>)> done) override {
    struct Call {
      grpc::ClientContext context;
      v1::MissingRequest request;
      v1::MissingReply reply;
      std::shared_ptr<BlobsStub> blobs;
    };
    auto call = std::make_shared<Call>();
    call->request = std::move(request);
    call->blobs = Blobs();
    call->blobs->stub->async()->Missing(
        &call->context, &call->request, &call->reply,
        [call, done = std::move(done)](const grpc::Status& status) mutable {
          CallbackScope scope;
          auto last = std::move(done);  // with what it keeps: gone before the scope
          if (status.ok()) return last(std::move(call->reply));
          last(FromGrpc(status));
        });
  }

  void Upload(v1::UploadRequest first, std::vector<BlobPart> blobs,
              std::function<void(absl::StatusOr<v1::UploadReply>)> done) override {
    auto held = Blobs();
    // Deletes itself.
    new UploadReactor(held->stub.get(), std::move(first), std::move(blobs),
                      [held, done = std::move(done)](absl::StatusOr<v1::UploadReply> reply) {
                        done(std::move(reply));
                      });
  }

  void Fetch(v1::FetchRequest request,
             std::function<void(absl::StatusOr<std::string>)> done) override {
    auto held = Blobs();
    // Deletes itself.
    new FetchReactor(held->stub.get(), std::move(request),
                     [held, done = std::move(done)](absl::StatusOr<std::string> bytes) {
                       done(std::move(bytes));
                     });
  }

  void AwaitEnds(std::chrono::milliseconds patience) override {
    keeper_.state()->AwaitEnds(patience);
  }

  const std::string& socket() const override { return socket_; }

 private:
  // Bulk bytes have a connection of their own, made when first needed.
  std::shared_ptr<BlobsStub> Blobs() {
    MutexLock lock(&mutex_);
    if (blobs_ == nullptr) blobs_ = std::make_shared<BlobsStub>("unix:" + socket_);
    return blobs_;
  }

  const std::string socket_;
  StreamKeeper keeper_;
  Mutex mutex_;
  std::shared_ptr<BlobsStub> blobs_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Transport> MakeGrpcTransport(std::string socket) {
  return std::make_unique<GrpcTransport>(std::move(socket));
}

}  // namespace kcache::internal
