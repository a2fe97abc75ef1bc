#include "backends/opencl/child_compile.h"

#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/opencl/compiler.h"
#include "backends/opencl/device_catalog.h"
#include "backends/opencl/driver_caches.h"
#include "backends/opencl/private_directory.h"
#include "contract/error_reason.h"

namespace kcache::backend::opencl {
namespace {

constexpr char kFlag[] = "--compile-one";

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

// Runs this program with `arguments` and waits for its end.
absl::StatusOr<int> RunSelf(std::vector<std::string> arguments, const std::string& directory) {
  std::vector<std::string> environment = EnvironmentWithin(directory);
  std::vector<char*> argument_pointers = Pointers(&arguments);
  std::vector<char*> environment_pointers = Pointers(&environment);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/proc/self/exe", nullptr, nullptr,
                                argument_pointers.data(), environment_pointers.data());
  if (error != 0) {
    return Failure(std::string("cannot start the compiling process: ") + std::strerror(error));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return Failure(std::string("waitpid: ") + std::strerror(errno));
  }
  return status;
}

absl::StatusOr<v1::Artifact> CompileAlone(const v1::CompileRequest& request) {
  absl::StatusOr<DriverCaches> caches = DriverCaches::Isolate();
  if (!caches.ok()) return caches.status();
  absl::StatusOr<CatalogDevice> device = FindDevice(request.device_index());
  if (!device.ok()) return device.status();
  absl::StatusOr<std::unique_ptr<OpenClCompiler>> compiler = OpenClCompiler::Make();
  if (!compiler.ok()) return compiler.status();
  return (*compiler)->CompileHere(*device, request, caches->pocl());
}

}  // namespace

absl::StatusOr<v1::Artifact> CompileInChild(const v1::CompileRequest& request) {
  absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make("kcache-compile-");
  if (!directory.ok()) return directory.status();
  const std::string request_file = (directory->path() / "request").string();
  const std::string reply_file = (directory->path() / "reply").string();
  std::ofstream out(request_file, std::ios::binary);
  const bool written = request.SerializeToOstream(&out);
  out.close();
  if (!written || !out) return Failure("cannot write " + request_file);

  absl::StatusOr<int> status = RunSelf({"kcache-backend-opencl", kFlag, request_file, reply_file},
                                       directory->path().string());
  if (!status.ok()) return status.status();
  if (WIFSIGNALED(*status)) {
    *directory = PrivateDirectory();  // nothing will run destructors
    DieOf(WTERMSIG(*status));
  }
  if (WEXITSTATUS(*status) != 0) {
    return Failure("the compiling process ended with code " + std::to_string(WEXITSTATUS(*status)));
  }
  v1::CompileReply reply;
  std::ifstream in(reply_file, std::ios::binary);
  if (!reply.ParseFromIstream(&in)) return Failure("the compiling process left no reply");
  if (reply.has_error()) return FromProto(reply.error());
  return std::move(*reply.mutable_artifact());
}

bool IsCompileChild(int argc, char** argv) { return argc == 4 && std::strcmp(argv[1], kFlag) == 0; }

int RunCompileChild(char** argv) {
  // The parent's thread that waits for us is the one that was there when we were started.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  v1::CompileRequest request;
  std::ifstream in(argv[2], std::ios::binary);
  if (!request.ParseFromIstream(&in)) {
    std::fprintf(stderr, "%s: cannot read the request\n", argv[2]);
    return 2;
  }
  v1::CompileReply reply;
  absl::StatusOr<v1::Artifact> artifact = CompileAlone(request);
  if (artifact.ok()) {
    *reply.mutable_artifact() = *std::move(artifact);
  } else {
    *reply.mutable_error() = ToProto(artifact.status());
  }
  std::ofstream out(argv[3], std::ios::binary);
  const bool written = reply.SerializeToOstream(&out);
  out.close();
  if (!written || !out) {
    std::fprintf(stderr, "%s: cannot write the reply\n", argv[3]);
    return 3;
  }
  // The driver's threads are still there and its library must not be torn down around them.
  std::fflush(nullptr);
  _exit(0);
}

}  // namespace kcache::backend::opencl
