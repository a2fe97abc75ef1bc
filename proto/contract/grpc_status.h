// kcache's typed failures to and from grpc::Status; the only file of the contract that knows gRPC
// (target kcache_contract_grpc).
//
// Code and message are gRPC's own; reason and details travel as a serialized v1::Error in
// error_details. gRPC carries both in trailing metadata, which peers refuse beyond 8 KiB, so the
// message is cut to kMaxGrpcMessageBytes and details that do not fit are left out. Bulky messages
// (a compiler's log) belong in an event of a stream, which has no such limit.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_CONTRACT_GRPC_STATUS_H_
#define KCACHE_CONTRACT_GRPC_STATUS_H_

#include <grpcpp/support/status.h>

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "contract/error_reason.h"
#include "contract/strings.h"
#include "kcache/v1/types.pb.h"

namespace kcache {

inline constexpr size_t kMaxGrpcMessageBytes = 1024;
inline constexpr size_t kMaxGrpcDetailsBytes = 2048;

inline grpc::Status ToGrpc(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  v1::Error error = ToProto(status);
  const std::string message(Utf8Prefix(error.message(), kMaxGrpcMessageBytes));
  error.clear_message();
  if (error.ByteSizeLong() > kMaxGrpcDetailsBytes) error.clear_details();
  return grpc::Status(static_cast<grpc::StatusCode>(error.code()), message,
                      error.SerializeAsString());
}

// A failure that carries no v1::Error (gRPC's own: a refused connection) keeps its code and
// message, and has no reason.
inline absl::Status FromGrpc(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  v1::Error error;
  if (!error.ParseFromString(status.error_details())) error.Clear();
  error.set_code(static_cast<int>(status.error_code()));
  error.set_message(status.error_message());
  return FromProto(error);
}

}  // namespace kcache

#endif  // KCACHE_CONTRACT_GRPC_STATUS_H_
