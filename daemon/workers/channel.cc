#include "daemon/workers/channel.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>

#include "daemon/ops/system_error.h"
#include "kcache/v1/backend.grpc.pb.h"

namespace kcache::workers {
namespace {

// gRPC's client callbacks run on threads that end with the last channel that used them, and a thread
// cannot wait for its own end: the last channel must not go on one of them, but the executor runs on
// whatever thread brings work. So one channel that has made a call stays for good.
void KeepCallbackThreads() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct Kept {
      std::shared_ptr<grpc::Channel> channel =
          grpc::CreateChannel("unix:/dev/null", grpc::InsecureChannelCredentials());
      std::unique_ptr<v1::Compile::Stub> stub = v1::Compile::NewStub(channel);
      grpc::ClientContext context;
      v1::CompileRequest request;
      v1::CompileReply reply;
    };
    static Kept* const kept = new Kept;
    kept->context.set_deadline(std::chrono::system_clock::now());
    kept->stub->async()->Run(&kept->context, &kept->request, &kept->reply, [](grpc::Status) {});
  });
}

}  // namespace

absl::StatusOr<ControlSocket> MakeControlSocket() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
    return ops::SystemError(errno, "creating a control socket");
  }
  ControlSocket socket{ops::UniqueFd(fds[0]), ops::UniqueFd(fds[1])};
  // gRPC wants its end non-blocking; the backend does the same to its own.
  fcntl(socket.ours.get(), F_SETFL, O_NONBLOCK);
  return socket;
}

std::shared_ptr<grpc::Channel> MakeChannel(ops::UniqueFd socket, uint64_t max_receive_bytes) {
  KeepCallbackThreads();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(
      std::min<uint64_t>(max_receive_bytes, std::numeric_limits<int>::max())));
  arguments.SetMaxSendMessageSize(-1);
  // Every channel is its own connection; there is no other to share.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomInsecureChannelFromFd("kcache-backend", socket.Release(), arguments);
}

}  // namespace kcache::workers
