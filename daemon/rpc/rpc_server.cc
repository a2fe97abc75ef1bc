#include "daemon/rpc/rpc_server.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <utility>

#include "daemon/rpc/blobs_service.h"
#include "daemon/rpc/listener.h"
#include "daemon/rpc/session_service.h"

namespace kcache::rpc {
namespace {

// Streams of one connection: a client has one session and a few transfers of blobs.
constexpr int kMaxStreams = 256;

// A dead process is noticed by the kernel (a unix socket closes) and a stopped one by its TTL;
// keepalive, driven from here, is what remains for a connection that nobody reads any more.
void Configure(grpc::ServerBuilder* builder, uint64_t max_message_bytes,
               absl::Duration keepalive) {
  const int keepalive_ms = static_cast<int>(
      std::min<int64_t>(absl::ToInt64Milliseconds(keepalive), INT_MAX));
  builder->SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  builder->SetMaxSendMessageSize(INT_MAX);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreams);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, keepalive_ms);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, keepalive_ms);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
}

class RpcServerImpl : public RpcServer {
 public:
  RpcServerImpl(const RpcOptions& options, core::Service* service, core::Executor* executor,
                ops::EpollLoop* loop, ops::EventLog* events, AdminService::Hooks hooks,
                ListeningSocket client_socket, ListeningSocket admin_socket)
      : loop_(loop),
        events_(events),
        peers_(loop, options.connections,
               [service, executor](const core::Peer& peer) {
                 executor->Post([service, peer] { service->ProcessExited(peer); });
               }),
        sessions_(service, executor, &peers_),
        blobs_(service, executor, &peers_, options.max_source_bytes),
        admin_(service, executor, &peers_, events, std::move(hooks)),
        client_socket_(std::move(client_socket)),
        admin_socket_(std::move(admin_socket)) {
    grpc::ServerBuilder client_builder, admin_builder;
    Configure(&client_builder, options.max_message_bytes, options.keepalive);
    Configure(&admin_builder, options.max_message_bytes + options.max_source_bytes,
              options.keepalive);
    client_builder.RegisterService(&sessions_);
    client_builder.RegisterService(&blobs_);
    admin_builder.RegisterService(&admin_);
    client_server_ = client_builder.BuildAndStart();
    admin_server_ = admin_builder.BuildAndStart();
  }

  absl::Status Open() {
    auto client = Listen(client_socket_, client_server_.get());
    if (!client.ok()) return client.status();
    auto admin = Listen(admin_socket_, admin_server_.get());
    if (!admin.ok()) return admin.status();
    client_listener_ = *std::move(client);
    admin_listener_ = *std::move(admin);
    return absl::OkStatus();
  }

  void StopAccepting() override {
    client_listener_->Stop();
    admin_listener_->Stop();
    // Whoever comes now is told at once that nobody serves, instead of waiting in the backlog.
    unlink(client_socket_.path().c_str());
    unlink(admin_socket_.path().c_str());
  }

  void Shutdown(absl::Duration deadline) override {
    StopAccepting();
    const auto due = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline);
    client_server_->Shutdown(due);
    admin_server_->Shutdown(due);
  }

  uint64_t connections() const override { return peers_.size(); }

 private:
  absl::StatusOr<std::unique_ptr<Listener>> Listen(const ListeningSocket& socket,
                                                   grpc::Server* server) {
    return Listener::Create(socket.fd(), socket.path(), loop_, &peers_, events_, [server](int fd) {
      grpc::AddInsecureChannelFromFd(server, fd);
    });
  }

  ops::EpollLoop* const loop_;
  ops::EventLog* const events_;
  ConnectionTable peers_;
  SessionService sessions_;
  BlobsService blobs_;
  AdminService admin_;
  ListeningSocket client_socket_, admin_socket_;
  std::unique_ptr<grpc::Server> client_server_, admin_server_;
  std::unique_ptr<Listener> client_listener_, admin_listener_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RpcServer>> RpcServer::Start(
    const RpcOptions& options, core::Service* service, core::Executor* executor,
    ops::EpollLoop* loop, ops::EventLog* events, AdminService::Hooks hooks) {
  auto client = ListeningSocket::Open(options.client);
  if (!client.ok()) return client.status();
  auto admin = ListeningSocket::Open(options.admin);
  if (!admin.ok()) return admin.status();
  auto server = std::make_unique<RpcServerImpl>(options, service, executor, loop, events,
                                                std::move(hooks), *std::move(client),
                                                *std::move(admin));
  if (absl::Status opened = server->Open(); !opened.ok()) return opened;
  return std::unique_ptr<RpcServer>(std::move(server));
}

}  // namespace kcache::rpc
