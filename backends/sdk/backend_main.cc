// The main() of every backend program: roles, the control socket, and the end of the process.

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "backends/sdk/depends_on.h"
#include "backends/sdk/device_service.h"
#include "backends/sdk/driver.h"
#include "backends/sdk/execution_server.h"
#include "backends/sdk/exit_codes.h"
#include "backends/sdk/host.h"
#include "contract/error_reason.h"
#include "contract/grpc_status.h"
#include "contract/history.h"
#include "contract/mutex.h"
#include "kcache/v1/backend.grpc.pb.h"

namespace kcache::backend {
namespace {

constexpr int kMaxControlMessage = 512 << 20;  // artifacts travel here

struct Arguments {
  std::string role;
  int control_fd = -1;
  int execution_fd = -1;
  int history_fd = -1;  // none: nothing is recorded
};

// "--name=value"; false when `argument` is another option.
bool Option(std::string_view argument, std::string_view name, std::string_view* value) {
  if (!argument.starts_with(name) || argument.size() <= name.size() ||
      argument[name.size()] != '=') {
    return false;
  }
  *value = argument.substr(name.size() + 1);
  return true;
}

bool ParseFd(std::string_view text, int* fd) {
  char* end = nullptr;
  const std::string copy(text);
  const long value = std::strtol(copy.c_str(), &end, 10);
  if (copy.empty() || *end != '\0' || value < 0 || value > INT_MAX) return false;
  *fd = static_cast<int>(value);
  return fcntl(*fd, F_GETFD) >= 0;
}

int Usage(const char* program, const std::string& problem) {
  std::fprintf(stderr,
               "%s: %s\n"
               "usage: %s --role=probe\n"
               "       %s --role=compile --control-fd=N\n"
               "       %s --role=device --control-fd=N --execution-fd=N [--history-fd=N]\n"
               "N are inherited sockets; kcached starts this program, people do only to probe.\n",
               program, problem.c_str(), program, program, program);
  return kExitUsage;
}

// How a device host ends: the first reason counts.
class Ending {
 public:
  void Begin(int code) {
    MutexLock lock(&mutex_);
    if (!code_) code_ = code;
    changed_.NotifyAll();
  }
  int Await() {
    MutexLock lock(&mutex_);
    while (!code_) changed_.Wait(&mutex_);
    return *code_;
  }
  int CodeOr(int otherwise) {
    MutexLock lock(&mutex_);
    return code_.value_or(otherwise);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  std::optional<int> code_ ABSL_GUARDED_BY(mutex_);
};

// Ends the process when the daemon's end of the control socket closes, whatever the driver or gRPC
// are doing. PR_SET_PDEATHSIG covers the case that the daemon's descriptors outlive it.
// When the host ends by itself the daemon closes its end, too: `ending` says so; null: it never does.
void WatchParent(int control_fd, Ending* ending) {
  // Had it gone before that took effect, the socket says so at once. The parent's number says nothing:
  // in a pid namespace of its own this process's parent is always 1.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::thread([control_fd, ending] {
    pollfd poller{.fd = control_fd, .events = POLLRDHUP, .revents = 0};
    while (true) {
      const int ready = poll(&poller, 1, -1);
      if (ready < 0 && errno == EINTR) continue;
      _exit(ending == nullptr ? kExitOrphaned : ending->CodeOr(kExitOrphaned));
    }
  }).detach();
}

std::unique_ptr<grpc::Server> ServeOn(int fd, grpc::Service* service) {
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxControlMessage);
  builder.SetMaxSendMessageSize(kMaxControlMessage);
  builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  grpc::AddInsecureChannelFromFd(server.get(), fd);
  return server;
}

class CompileService : public v1::Compile::Service {
 public:
  explicit CompileService(Compiler* compiler) : compiler_(compiler) {}
  grpc::Status Run(grpc::ServerContext*, const v1::CompileRequest* request,
                   v1::CompileReply* reply) override {
    MutexLock lock(&mutex_);  // one job at a time: compilers need not be thread-safe
    auto artifact = compiler_->Compile(*request);
    absl::Status status = artifact.status();
    if (artifact.ok() && request->max_output_bytes() != 0 &&
        artifact->binary().size() > request->max_output_bytes()) {
      status = MakeError(v1::LIMIT_EXCEEDED,
                         "the artifact has " + std::to_string(artifact->binary().size()) +
                             " bytes; the limit max_artifact_bytes is " +
                             std::to_string(request->max_output_bytes()));
    }
    if (!status.ok()) {
      *reply->mutable_error() = ToProto(status);
      return grpc::Status::OK;
    }
    *reply->mutable_artifact() = *std::move(artifact);
    if (request->max_log_bytes() != 0 &&
        reply->artifact().build_log().size() > request->max_log_bytes()) {
      reply->mutable_artifact()->mutable_build_log()->resize(request->max_log_bytes());
    }
    return grpc::Status::OK;
  }

 private:
  Compiler* const compiler_;
  Mutex mutex_;
};

int Probe(Family* family) {
  v1::ProbeReport report = family->Probe();
  for (std::string& path : ProbeDependencies()) report.add_depends_on(std::move(path));
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  if (auto status = google::protobuf::util::MessageToJsonString(report, &json, options);
      !status.ok()) {
    std::fprintf(stderr, "probe report: %s\n", status.ToString().c_str());
    return kExitFailure;
  }
  std::fwrite(json.data(), 1, json.size(), stdout);
  std::fflush(stdout);
  return kExitOk;
}

int CompileRole(Family* family, const Arguments& arguments) {
  WatchParent(arguments.control_fd, nullptr);
  auto compiler = family->MakeCompiler();
  if (!compiler.ok()) {
    std::fprintf(stderr, "no compiler: %s\n", std::string(compiler.status().message()).c_str());
    return kExitUnavailable;
  }
  CompileService service(compiler->get());
  std::unique_ptr<grpc::Server> server = ServeOn(arguments.control_fd, &service);
  server->Wait();  // the parent's end of file ends this process
  return kExitOk;
}

// Ends the process when every call is answered and every event told. A call that is stuck in the driver does
// not keep it.
[[noreturn]] void EndWhenAnswered(grpc::Server* server, int code) {
  constexpr std::chrono::milliseconds kPatience{500};
  auto answered = std::make_shared<std::promise<void>>();
  auto done = answered->get_future();
  std::thread([server, answered] {
    server->Shutdown();
    answered->set_value();
  }).detach();
  done.wait_for(kPatience);
  _exit(code);
}

int DeviceRole(Family* family, const Arguments& arguments) {
  // None of these is ever destroyed: at process exit a driver may be deinitialised before us.
  auto* ending = new Ending;
  WatchParent(arguments.control_fd, ending);
  const History* history =
      arguments.history_fd < 0 ? nullptr : new History(arguments.history_fd);
  auto* host = new Host(family, history, [ending](const absl::Status& why) {
    std::fprintf(stderr, "context lost: %s\n", std::string(why.message()).c_str());
    ending->Begin(kExitContextLost);
  });
  auto* service = new DeviceService(host, [ending] { ending->Begin(kExitOk); });
  std::unique_ptr<ExecutionServer> execution = ExecutionServer::Start(host, arguments.execution_fd);
  std::unique_ptr<grpc::Server> server = ServeOn(arguments.control_fd, service);
  const int code = ending->Await();
  host->EndEvents();
  EndWhenAnswered(server.get(), code);
}

}  // namespace

int BackendMain(int argc, char** argv, std::unique_ptr<Family> family) {
  Arguments arguments;
  const char* program = argc > 0 ? argv[0] : "kcache-backend";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    std::string_view value;
    if (argument == "--version") {
      std::printf("%s %s\n", program, KCACHE_VERSION);
      return kExitOk;
    }
    if (Option(argument, "--role", &value)) {
      arguments.role = std::string(value);
    } else if (Option(argument, "--control-fd", &value)) {
      if (!ParseFd(value, &arguments.control_fd)) {
        return Usage(program, "--control-fd=" + std::string(value) + " is no open descriptor");
      }
    } else if (Option(argument, "--execution-fd", &value)) {
      if (!ParseFd(value, &arguments.execution_fd)) {
        return Usage(program, "--execution-fd=" + std::string(value) + " is no open descriptor");
      }
    } else if (Option(argument, "--history-fd", &value)) {
      if (!ParseFd(value, &arguments.history_fd)) {
        return Usage(program, "--history-fd=" + std::string(value) + " is no open descriptor");
      }
    } else {
      return Usage(program, "unknown argument " + std::string(argument));
    }
  }
  signal(SIGPIPE, SIG_IGN);
  if (arguments.role == "probe") return Probe(family.get());
  if (arguments.role != "compile" && arguments.role != "device") {
    return Usage(program, "--role is \"" + arguments.role + "\"; it is probe, compile or device");
  }
  if (arguments.control_fd < 0) return Usage(program, "--control-fd is missing");
  if (arguments.role == "compile") return CompileRole(family.get(), arguments);
  if (arguments.execution_fd < 0) return Usage(program, "--execution-fd is missing");
  return DeviceRole(family.get(), arguments);
}

}  // namespace kcache::backend
