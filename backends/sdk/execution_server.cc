#include "backends/sdk/execution_server.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "backends/sdk/session_engine.h"
#include "contract/error_reason.h"
#include "contract/grpc_status.h"
#include "kcache/v1/execution.grpc.pb.h"

namespace kcache::backend {
namespace {

constexpr size_t kMaxReplyBytes = 2u << 20;

// Identities by descriptor number, as gRPC spells it in ServerContext::peer().
class PeerTable {
 public:
  void Add(int fd, const ExecutionPeer& peer) {
    MutexLock lock(&mutex_);
    if (peers_.size() >= kMax) peers_.erase(peers_.begin());  // the oldest number
    peers_[fd] = peer;
  }
  bool Find(const std::string& name, ExecutionPeer* peer) const {
    if (!name.starts_with("fd:")) return false;
    MutexLock lock(&mutex_);
    auto found = peers_.find(std::atoi(name.c_str() + 3));
    if (found == peers_.end()) return false;
    *peer = found->second;
    return true;
  }

 private:
  static constexpr size_t kMax = 1u << 16;
  mutable Mutex mutex_;
  std::map<int, ExecutionPeer> peers_ ABSL_GUARDED_BY(mutex_);
};

// One stream. Reads go straight into the engine; replies queue up behind the write in flight and leave
// together in the next message.
class Stream : public grpc::ServerBidiReactor<v1::ExecutionRequest, v1::ExecutionReply> {
 public:
  // The engine's end of the stream: outlives it.
  class Sink : public ReplySink {
   public:
    explicit Sink(Stream* stream) : stream_(stream) {}
    void Send(v1::Reply reply) override {
      MutexLock lock(&mutex_);
      if (stream_ != nullptr) stream_->Queue(std::move(reply));
    }
    void Close(const absl::Status& why) override {
      MutexLock lock(&mutex_);
      if (stream_ != nullptr) stream_->CloseAfterWrites(ToGrpc(why));
    }
    void Detach() {
      MutexLock lock(&mutex_);
      stream_ = nullptr;
    }

   private:
    Mutex mutex_;
    Stream* stream_ ABSL_GUARDED_BY(mutex_);
  };

  Stream(Host* host, ExecutionPeer peer, bool known)
      : host_(host), peer_(peer), known_(known), sink_(std::make_shared<Sink>(this)) {
    request_ = std::make_shared<v1::ExecutionRequest>();
    StartRead(request_.get());
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // Half-closed: what is queued still leaves.
      CloseAfterWrites(grpc::Status::OK);
      return;
    }
    std::shared_ptr<v1::ExecutionRequest> request = std::move(request_);
    if (session_ == nullptr) {
      if (absl::Status attached = Attach(*request); !attached.ok()) {
        CloseAfterWrites(ToGrpc(attached));
        return;
      }
      request->mutable_commands()->DeleteSubrange(0, 1);
    }
    session_->Handle(std::move(request));
    request_ = std::make_shared<v1::ExecutionRequest>();
    StartRead(request_.get());
  }

  void OnWriteDone(bool ok) override {
    MutexLock lock(&mutex_);
    writing_ = false;
    if (!ok) return;
    Pump();
  }

  void OnCancel() override {
    if (session_ != nullptr) session_->MarkDetached();
  }

  void OnDone() override {
    sink_->Detach();
    if (session_ != nullptr) host_->Detach(session_.get());
    delete this;
  }

 private:
  absl::Status Attach(const v1::ExecutionRequest& request) {
    if (request.commands().empty() || !request.commands(0).has_attach()) {
      return MakeError(v1::BAD_REQUEST, "the first command of an execution stream must be Attach");
    }
    if (!known_) return MakeError(v1::PERMISSION_DENIED, "this connection's peer is not known");
    auto session = host_->Attach(request.commands(0).attach(), peer_, sink_);
    if (!session.ok()) return session.status();
    session_ = *std::move(session);
    v1::Reply reply;
    v1::Attached* attached = reply.mutable_attached();
    attached->set_max_queues(host_->limits().max_queues_per_session());
    attached->set_max_message_bytes(host_->limits().max_message_bytes());
    attached->set_max_commands_in_flight(host_->limits().max_commands_in_flight());
    sink_->Send(std::move(reply));
    return absl::OkStatus();
  }

  void Queue(v1::Reply reply) {
    MutexLock lock(&mutex_);
    *queued_.add_replies() = std::move(reply);
    Pump();
  }

  void CloseAfterWrites(const grpc::Status& status) {
    MutexLock lock(&mutex_);
    if (closing_) return;
    closing_ = true;
    status_ = status;
    Pump();
  }

  void Pump() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || finished_) return;
    if (queued_.replies().empty()) {
      if (closing_) {
        finished_ = true;
        Finish(status_);
      }
      return;
    }
    sending_.Clear();
    size_t bytes = 0;
    int count = 0;
    while (count < queued_.replies_size() && (count == 0 || bytes < kMaxReplyBytes)) {
      bytes += queued_.replies(count++).ByteSizeLong();
    }
    if (count == queued_.replies_size()) {
      sending_.Swap(&queued_);
    } else {
      for (int i = 0; i < count; ++i) sending_.add_replies()->Swap(queued_.mutable_replies(i));
      queued_.mutable_replies()->DeleteSubrange(0, count);
    }
    writing_ = true;
    StartWrite(&sending_);
  }

  Host* const host_;
  const ExecutionPeer peer_;
  const bool known_;
  const std::shared_ptr<Sink> sink_;
  std::shared_ptr<SessionEngine> session_;
  std::shared_ptr<v1::ExecutionRequest> request_;

  Mutex mutex_;
  v1::ExecutionReply queued_ ABSL_GUARDED_BY(mutex_);
  v1::ExecutionReply sending_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool closing_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::Status status_ ABSL_GUARDED_BY(mutex_);
};

class ExecutionService : public v1::Execution::CallbackService {
 public:
  ExecutionService(Host* host, const PeerTable* peers) : host_(host), peers_(peers) {}
  grpc::ServerBidiReactor<v1::ExecutionRequest, v1::ExecutionReply>* Attach(
      grpc::CallbackServerContext* context) override {
    ExecutionPeer peer;
    const bool known = peers_->Find(context->peer(), &peer);
    return new Stream(host_, peer, known);
  }

 private:
  Host* const host_;
  const PeerTable* const peers_;
};

class GrpcExecutionServer : public ExecutionServer {
 public:
  GrpcExecutionServer(Host* host, int listening_fd)
      : service_(host, &peers_), listening_fd_(listening_fd) {
    grpc::ServerBuilder builder;
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    builder.SetMaxSendMessageSize(kMaxRequestBytes);
    builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
    // A client's connection carries its stream from its first moment to its last; others are nobody's.
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, kIdleMs);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    // The thread that accepts has nothing else to do: it blocks, however the socket was made.
    fcntl(listening_fd_, F_SETFL, fcntl(listening_fd_, F_GETFL) & ~O_NONBLOCK);
    std::thread([this] { Accept(); }).detach();
  }

 private:
  static constexpr int kMaxRequestBytes = 64 << 20;
  static constexpr int kFirstFd = 1000;
  static constexpr int kIdleMs = 10'000;

  void Accept() {
    int next = kFirstFd;
    while (true) {
      const int accepted = accept4(listening_fd_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (accepted < 0) {
        if (errno == EINTR || errno == ECONNABORTED) continue;
        if (errno == EMFILE || errno == ENFILE) {
          // Nothing to do but wait until somebody leaves.
          std::this_thread::sleep_for(std::chrono::milliseconds(10));
          continue;
        }
        std::fprintf(stderr, "accept on the execution socket: %s\n", std::strerror(errno));
        return;
      }
      ucred credentials{};
      socklen_t size = sizeof credentials;
      if (getsockopt(accepted, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
        close(accepted);
        continue;
      }
      int fresh = fcntl(accepted, F_DUPFD_CLOEXEC, next);
      if (fresh < 0) {
        // Past the limit of descriptor numbers: the low ones have long been given up.
        next = kFirstFd;
        fresh = fcntl(accepted, F_DUPFD_CLOEXEC, next);
      }
      close(accepted);
      if (fresh < 0) continue;
      next = fresh + 1;
      peers_.Add(fresh, {.uid = credentials.uid, .pid = credentials.pid});
      grpc::AddInsecureChannelFromFd(server_.get(), fresh);
    }
  }

  PeerTable peers_;
  ExecutionService service_;
  const int listening_fd_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

std::unique_ptr<ExecutionServer> ExecutionServer::Start(Host* host, int listening_fd) {
  return std::make_unique<GrpcExecutionServer>(host, listening_fd);
}

}  // namespace kcache::backend
