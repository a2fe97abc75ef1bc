#include "daemon/workers/channel.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <limits>

#include "daemon/ops/system_error.h"

namespace kcache::workers {

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
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(
      std::min<uint64_t>(max_receive_bytes, std::numeric_limits<int>::max())));
  arguments.SetMaxSendMessageSize(-1);
  // Every channel is its own connection; there is no other to share.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomInsecureChannelFromFd("kcache-backend", socket.Release(), arguments);
}

}  // namespace kcache::workers
