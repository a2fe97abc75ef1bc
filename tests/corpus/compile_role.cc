#include "tests/corpus/compile_role.h"

#include <fcntl.h>
#include <grpcpp/create_channel_posix.h>
#include <grpcpp/grpcpp.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/grpc_status.h"

namespace kcache::corpus {
namespace {

constexpr int kMaxMessageBytes = 64 << 20;
constexpr auto kCompileTimeout = std::chrono::minutes(2);

}  // namespace

absl::StatusOr<std::unique_ptr<CompileRole>> CompileRole::Start(const std::string& program) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::InternalError(absl::StrCat("socketpair: ", std::strerror(errno)));
  }
  // In the child the socket keeps its number and loses close-on-exec.
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, sockets[1], sockets[1]);
  const std::string socket_option = absl::StrCat("--control-fd=", sockets[1]);
  std::string role = "--role=compile";
  char* arguments[] = {const_cast<char*>(program.c_str()), role.data(),
                       const_cast<char*>(socket_option.c_str()), nullptr};
  pid_t process = 0;
  const int failed = posix_spawn(&process, program.c_str(), &files, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  close(sockets[1]);
  if (failed != 0) {
    close(sockets[0]);
    return absl::InternalError(absl::StrCat("cannot start ", program, ": ", std::strerror(failed)));
  }
  return std::unique_ptr<CompileRole>(new CompileRole(process, sockets[0]));
}

CompileRole::CompileRole(pid_t process, int socket) : process_(process) {
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  stub_ = v1::Compile::NewStub(
      grpc::CreateCustomInsecureChannelFromFd("compile-role", socket, arguments));
}

CompileRole::~CompileRole() {
  stub_.reset();  // closes the socket, at which the process ends by itself
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

absl::StatusOr<v1::Artifact> CompileRole::Compile(const v1::CompileRequest& request) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kCompileTimeout);
  v1::CompileReply reply;
  const grpc::Status called = stub_->Run(&context, request, &reply);
  if (!called.ok()) return FromGrpc(called);
  if (reply.has_error()) return FromProto(reply.error());
  return reply.artifact();
}

}  // namespace kcache::corpus
