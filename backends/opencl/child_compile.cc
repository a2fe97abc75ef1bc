#include "backends/opencl/child_compile.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "backends/opencl/child_channel.h"
#include "backends/opencl/compiler.h"
#include "backends/opencl/device_catalog.h"
#include "backends/opencl/driver_caches.h"
#include "contract/error_reason.h"

namespace kcache::backend::opencl {
namespace {

constexpr char kFlag[] = "--compile-child";
constexpr int kChildSocket = 3;

absl::Status Failure(const std::string& what) { return MakeError(v1::INTERNAL, what); }

// This process's environment with TMPDIR replaced.
std::vector<std::string> EnvironmentWithin(const std::string& directory) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::string_view(*variable).substr(0, 7) != "TMPDIR=") variables.emplace_back(*variable);
  }
  variables.push_back("TMPDIR=" + directory);
  return variables;
}

std::vector<char*> Pointers(std::vector<std::string>* strings) {
  std::vector<char*> pointers;
  for (std::string& text : *strings) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

[[noreturn]] void DieOf(int signal_number) {
  signal(signal_number, SIG_DFL);
  raise(signal_number);
  _exit(128 + signal_number);  // for signals that were blocked
}

// Starts this program with `socket` as its descriptor kChildSocket.
absl::StatusOr<pid_t> SpawnSelf(int socket, const std::string& directory) {
  std::vector<std::string> arguments{"kcache-backend-opencl", kFlag};
  std::vector<std::string> environment = EnvironmentWithin(directory);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, socket, kChildSocket);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", &actions, nullptr,
                                Pointers(&arguments).data(), Pointers(&environment).data());
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) {
    return Failure(std::string("cannot start a compiling process: ") + std::strerror(error));
  }
  return child;
}

absl::StatusOr<v1::Artifact> CompileFor(const v1::CompileRequest& request, OpenClCompiler* compiler,
                                        const std::filesystem::path& pocl_cache) {
  absl::StatusOr<CatalogDevice> device = FindDevice(request.device_index());
  if (!device.ok()) return device.status();
  return compiler->CompileHere(*device, request, pocl_cache);
}

// Equal texts: programs that will most likely be finished for the same local sizes.
std::string ShapesOf(const v1::CompileRequest& request) {
  std::string shapes;
  for (const v1::LaunchShape& shape : request.manifest().launch_shapes()) {
    shapes += shape.local_size().SerializeAsString() + ";";
  }
  return shapes;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompileChild>> CompileChild::Start() {
  absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make("kcache-compile-");
  if (!directory.ok()) return directory.status();
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return Failure(std::string("socketpair: ") + std::strerror(errno));
  }
  absl::StatusOr<pid_t> pid = SpawnSelf(sockets[1], directory->path().string());
  close(sockets[1]);
  if (!pid.ok()) {
    close(sockets[0]);
    return pid.status();
  }
  return std::unique_ptr<CompileChild>(new CompileChild(*pid, sockets[0], *std::move(directory)));
}

CompileChild::~CompileChild() {
  close(socket_);  // its signal to end
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

bool CompileChild::alive() const {
  siginfo_t info{};
  return pid_ != 0 &&
         waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
         info.si_pid == 0;
}

absl::Status CompileChild::Died() {
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0) {
    if (errno != EINTR) return Failure(std::string("waitpid: ") + std::strerror(errno));
  }
  pid_ = 0;
  if (WIFSIGNALED(status)) {
    directory_ = PrivateDirectory();  // nothing will run destructors
    DieOf(WTERMSIG(status));
  }
  return Failure("the compiling process ended with code " + std::to_string(WEXITSTATUS(status)));
}

absl::StatusOr<std::unique_ptr<v1::CompileReply>> CompileChild::Compile(
    const v1::CompileRequest& request) {
  ++served_;
  if (!SendFrame(socket_, ChildFrame::kRequest, request.SerializeAsString())) return Died();
  ChildFrame kind = ChildFrame::kReply;
  std::string payload;
  if (!ReceiveFrame(socket_, &kind, &payload)) return Died();
  if (kind == ChildFrame::kOtherSizes) return nullptr;
  auto reply = std::make_unique<v1::CompileReply>();
  if (!reply->ParseFromString(payload)) return Failure("the compiling process sent no reply");
  return reply;
}

absl::StatusOr<v1::Artifact> CompileChildren::Compile(const v1::CompileRequest& request) {
  const std::string shapes = ShapesOf(request);
  children_.remove_if([](const Settled& settled) {
    return settled.child->served() >= kMostServed || !settled.child->alive();
  });
  std::unique_ptr<v1::CompileReply> reply;
  for (auto settled = children_.begin(); settled != children_.end(); ++settled) {
    if (settled->shapes != shapes) continue;
    absl::StatusOr<std::unique_ptr<v1::CompileReply>> answer = settled->child->Compile(request);
    if (!answer.ok()) {
      children_.erase(settled);
      return answer.status();
    }
    children_.splice(children_.begin(), children_, settled);
    reply = *std::move(answer);
    break;
  }
  if (reply == nullptr) {
    absl::StatusOr<std::unique_ptr<CompileChild>> child = CompileChild::Start();
    if (!child.ok()) return child.status();
    absl::StatusOr<std::unique_ptr<v1::CompileReply>> answer = (*child)->Compile(request);
    if (!answer.ok()) return answer.status();
    reply = *std::move(answer);
    if (reply == nullptr) return Failure("a fresh compiling process has settled on local sizes");
    children_.push_front({shapes, *std::move(child)});
    if (children_.size() > kMostChildren) children_.pop_back();
  }
  if (reply->has_error()) return FromProto(reply->error());
  return std::move(*reply->mutable_artifact());
}

bool IsCompileChild(int argc, char** argv) { return argc == 2 && std::strcmp(argv[1], kFlag) == 0; }

int RunCompileChild(char**) {
  // Also in the middle of a compile, the end of the parent is the end of this process.
  std::thread([] {
    pollfd parent{kChildSocket, POLLRDHUP, 0};
    while (poll(&parent, 1, -1) < 0 && errno == EINTR) {
    }
    _exit(0);
  }).detach();
  absl::StatusOr<DriverCaches> caches = DriverCaches::Isolate();
  absl::StatusOr<std::unique_ptr<OpenClCompiler>> compiler = OpenClCompiler::Make();
  if (!caches.ok() || !compiler.ok()) {
    std::fprintf(stderr, "kcache-backend-opencl: %s %s\n",
                 std::string(caches.status().message()).c_str(),
                 std::string(compiler.status().message()).c_str());
    _exit(1);
  }
  ChildFrame kind = ChildFrame::kRequest;
  std::string payload;
  while (ReceiveFrame(kChildSocket, &kind, &payload)) {
    v1::CompileRequest request;
    if (!request.ParseFromString(payload)) _exit(2);
    v1::CompileReply reply;
    absl::StatusOr<v1::Artifact> artifact = CompileFor(request, compiler->get(), caches->pocl());
    if (artifact.ok()) {
      *reply.mutable_artifact() = *std::move(artifact);
    } else if (IsOtherSizes(artifact.status())) {
      if (!SendFrame(kChildSocket, ChildFrame::kOtherSizes, "")) break;
      continue;
    } else {
      *reply.mutable_error() = ToProto(artifact.status());
    }
    if (!SendFrame(kChildSocket, ChildFrame::kReply, reply.SerializeAsString())) break;
  }
  // The driver's threads are still there and its library must not be torn down around them.
  _exit(0);
}

}  // namespace kcache::backend::opencl
