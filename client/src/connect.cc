// Client::Connect with the real transport and threads: the only part of the public API that needs
// gRPC.

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "client/src/client_impl.h"
#include "client/src/grpc_transport.h"
#include "client/src/text.h"
#include "client/src/threads.h"
#include "kcache/client.h"

namespace kcache {
namespace {

constexpr size_t kMaxNameBytes = 128;

std::string DefaultSocket() {
  if (const char* socket = std::getenv("KCACHE_SOCKET"); socket != nullptr && *socket != '\0') {
    return socket;
  }
  if (const char* runtime = std::getenv("XDG_RUNTIME_DIR");
      runtime != nullptr && *runtime != '\0') {
    std::string socket = absl::StrCat(runtime, "/kcached/kcached.sock");
    std::error_code ignored;
    if (std::filesystem::exists(socket, ignored)) return socket;
  }
  return "/run/kcached/kcached.sock";
}

}  // namespace

absl::StatusOr<std::shared_ptr<Client>> Client::Connect(ClientOptions options) {
  if (options.socket.empty()) options.socket = DefaultSocket();
  if (options.name.empty()) {
    options.name = program_invocation_short_name;
    if (!IsValidUtf8(options.name)) options.name = "unnamed";
    options.name.resize(std::min(options.name.size(), kMaxNameBytes));
  }
  if (absl::Status bad = internal::CheckText("the client's name", options.name, kMaxNameBytes);
      !bad.ok()) {
    return bad;
  }
  auto runtime = std::make_shared<internal::Runtime>();
  runtime->timers = std::make_unique<internal::TimerThread>();
  runtime->listeners = std::make_unique<internal::TaskThread>();
  runtime->transport = internal::MakeGrpcTransport(options.socket);
  return Connect(std::make_shared<internal::ClientImpl>(std::move(options), std::move(runtime)));
}

}  // namespace kcache
