#include "client/ctl/admin_client.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/src/socket_error.h"
#include "contract/grpc_status.h"

namespace kcache::ctl {
namespace {

std::string DefaultSocket() {
  if (const char* socket = std::getenv("KCACHE_ADMIN_SOCKET");
      socket != nullptr && *socket != '\0') {
    return socket;
  }
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR");
      runtime != nullptr && *runtime != '\0') {
    std::string socket = absl::StrCat(runtime, "/kcached/admin.sock");
    std::error_code ignored;
    if (std::filesystem::exists(socket, ignored)) return socket;
  }
  return "/run/kcached/admin.sock";
}

}  // namespace

AdminClient::AdminClient(std::string socket, int timeout_ms)
    : socket_(socket.empty() ? DefaultSocket() : std::move(socket)), timeout_ms_(timeout_ms) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "kcached");  // a path is no host name
  arguments.SetMaxReceiveMessageSize(-1);
  stub_ = v1::Admin::NewStub(
      grpc::CreateCustomChannel("unix:" + socket_, grpc::InsecureChannelCredentials(), arguments));
}

void AdminClient::SetDeadline(grpc::ClientContext* context) const {
  context->set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms_));
}

absl::Status AdminClient::Failure(const grpc::Status& status) const {
  absl::Status failure = FromGrpc(status);
  if (failure.ok() || ReasonOf(failure) != v1::ERROR_REASON_UNSPECIFIED) return failure;
  if (status.error_code() == grpc::StatusCode::UNAVAILABLE) {
    return internal::WhyUnreachable(socket_, status.error_message());
  }
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) {
    return MakeError(
        v1::DAEMON_UNREACHABLE,
        absl::StrCat("the daemon at ", socket_, " did not answer within ", timeout_ms_, " ms"));
  }
  return failure;
}

}  // namespace kcache::ctl
