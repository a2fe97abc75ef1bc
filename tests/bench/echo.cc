#include "tests/bench/echo.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>

#include <condition_variable>
#include <mutex>

#include "kcache/v1/session.grpc.pb.h"

namespace kcache::bench {
namespace {

class EchoReactor : public grpc::ServerBidiReactor<v1::ClientMessage, v1::DaemonMessage> {
 public:
  explicit EchoReactor(const v1::DaemonMessage& reply) : reply_(reply) { StartRead(&request_); }
  void OnReadDone(bool ok) override {
    if (!ok) {
      Finish(grpc::Status::OK);
      return;
    }
    StartWrite(&reply_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  v1::ClientMessage request_;
  const v1::DaemonMessage reply_;
};

class EchoService : public v1::Session::CallbackService {
 public:
  explicit EchoService(size_t reply_bytes) {
    reply_.add_events()->mutable_grant()->set_artifact_key(std::string(reply_bytes, 'r'));
  }
  grpc::ServerBidiReactor<v1::ClientMessage, v1::DaemonMessage>* Open(
      grpc::CallbackServerContext*) override {
    return new EchoReactor(reply_);
  }

 private:
  v1::DaemonMessage reply_;
};

class EchoClientImpl : public EchoClient,
                       public grpc::ClientBidiReactor<v1::ClientMessage, v1::DaemonMessage> {
 public:
  explicit EchoClientImpl(const std::string& socket)
      : channel_(grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials())),
        stub_(v1::Session::NewStub(channel_)) {
    stub_->async()->Open(&context_, this);
    StartRead(&reply_);
    StartCall();
  }
  ~EchoClientImpl() override {
    StartWritesDone();
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
  }

  bool RoundTrip(size_t request_bytes) override {
    if (request_.events().empty() ||
        request_.events(0).acquire().entry().size() != request_bytes) {
      request_.Clear();
      request_.add_events()->mutable_acquire()->set_entry(std::string(request_bytes, 'q'));
    }
    {
      std::lock_guard<std::mutex> lock(mutex_);
      answered_ = written_ = false;
    }
    StartWrite(&request_);
    std::unique_lock<std::mutex> lock(mutex_);
    // The answer may overtake the notice of the write.
    changed_.wait(lock, [this] { return (answered_ && written_) || done_; });
    return answered_;
  }

  void OnWriteDone(bool) override {
    std::lock_guard<std::mutex> lock(mutex_);
    written_ = true;
    changed_.notify_all();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      answered_ = true;
    }
    changed_.notify_all();
    StartRead(&reply_);
  }
  void OnDone(const grpc::Status&) override {
    std::lock_guard<std::mutex> lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }

 private:
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Session::Stub> stub_;
  grpc::ClientContext context_;
  v1::ClientMessage request_;
  v1::DaemonMessage reply_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool answered_ = false, written_ = false, done_ = false;
};

}  // namespace

int RunEchoServer(const std::string& socket_path, size_t reply_bytes) {
  EchoService service(reply_bytes);
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const int listening = ListenAt(socket_path);
  if (listening < 0) return 1;
  TellParent("serving");
  while (true) {
    const int accepted = accept4(listening, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (accepted >= 0) grpc::AddInsecureChannelFromFd(server.get(), accepted);
  }
}

std::unique_ptr<EchoServer> EchoServer::Start(const std::string& program, size_t reply_bytes) {
  std::unique_ptr<EchoServer> server(new EchoServer());
  server->child_ =
      Child::Start({program, "echo-server", server->socket(), std::to_string(reply_bytes)});
  if (server->child_ == nullptr || !server->child_->Listen().has_value()) return nullptr;
  return server;
}

std::unique_ptr<EchoClient> EchoClient::Connect(const std::string& socket) {
  return std::make_unique<EchoClientImpl>(socket);
}

}  // namespace kcache::bench
