#include "daemon/rpc/rpc_server.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <climits>
#include <utility>

#include "daemon/rpc/acceptor.h"
#include "daemon/rpc/blobs_service.h"
#include "daemon/rpc/session_service.h"

namespace kcache::rpc {
namespace {

// A client may be silent for long and has no duty to answer pings of its own library's thread; a dead
// process is noticed by the kernel (a unix socket closes) and a stopped one by its TTL.
void Configure(grpc::ServerBuilder* builder, uint64_t max_message_bytes) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(max_message_bytes));
  builder->SetMaxSendMessageSize(INT_MAX);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, INT_MAX);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 1000);
}

class RpcServerImpl : public RpcServer {
 public:
  RpcServerImpl(const RpcOptions& options, core::Service* service, core::Executor* executor,
                ops::EpollLoop* loop, ops::EventLog* events, AdminService::Hooks hooks,
                ListeningSocket client_socket, ListeningSocket admin_socket)
      : sessions_(service, executor, &client_peers_),
        blobs_(service, executor, &client_peers_, options.max_source_bytes),
        admin_(service, executor, &admin_peers_, events, std::move(hooks)),
        client_socket_(std::move(client_socket)),
        admin_socket_(std::move(admin_socket)) {
    grpc::ServerBuilder client_builder, admin_builder;
    Configure(&client_builder, options.max_message_bytes);
    Configure(&admin_builder, options.max_message_bytes + options.max_source_bytes);
    client_builder.RegisterService(&sessions_);
    client_builder.RegisterService(&blobs_);
    admin_builder.RegisterService(&admin_);
    client_server_ = client_builder.BuildAndStart();
    admin_server_ = admin_builder.BuildAndStart();
    client_acceptor_ = std::make_unique<Acceptor>(
        loop, client_server_.get(), &client_peers_, [service, executor](const core::Peer& peer) {
          executor->Post([service, peer] { service->ProcessExited(peer); });
        });
    admin_acceptor_ = std::make_unique<Acceptor>(loop, admin_server_.get(), &admin_peers_,
                                                 [](const core::Peer&) {});
  }

  absl::Status Open() {
    if (absl::Status status = client_acceptor_->Start(client_socket_.fd()); !status.ok()) {
      return status;
    }
    return admin_acceptor_->Start(admin_socket_.fd());
  }

  void StopAccepting() override {
    client_acceptor_->Stop();
    admin_acceptor_->Stop();
  }

  void Shutdown(absl::Duration deadline) override {
    StopAccepting();
    const auto due = std::chrono::system_clock::now() + absl::ToChronoMilliseconds(deadline);
    client_server_->Shutdown(due);
    admin_server_->Shutdown(due);
  }

  uint64_t connections() const override { return client_peers_.size(); }

 private:
  PeerTable client_peers_, admin_peers_;
  SessionService sessions_;
  BlobsService blobs_;
  AdminService admin_;
  ListeningSocket client_socket_, admin_socket_;
  std::unique_ptr<grpc::Server> client_server_, admin_server_;
  std::unique_ptr<Acceptor> client_acceptor_, admin_acceptor_;
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
