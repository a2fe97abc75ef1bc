// A private gRPC channel to a backend process: one end of a socket pair, the other one inherited.
//
// Threads: any.

#ifndef KCACHE_DAEMON_WORKERS_CHANNEL_H_
#define KCACHE_DAEMON_WORKERS_CHANNEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "daemon/ops/unique_fd.h"
#include "grpcpp/channel.h"

namespace kcache::workers {

struct ControlSocket {
  ops::UniqueFd ours;
  ops::UniqueFd theirs;
};

absl::StatusOr<ControlSocket> MakeControlSocket();

// Takes the socket. Messages above `max_receive_bytes` fail their call with RESOURCE_EXHAUSTED.
std::shared_ptr<grpc::Channel> MakeChannel(ops::UniqueFd socket, uint64_t max_receive_bytes);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_CHANNEL_H_
