#include "backends/hip/architecture_trial.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::hip {
namespace {

constexpr std::string_view kOption = "--try-architecture=";
constexpr int kTimeoutMs = 30'000;

// Whether the child ended within the timeout.
bool AwaitEnd(pid_t child) {
  const int handle = static_cast<int>(syscall(SYS_pidfd_open, child, 0));
  if (handle < 0) return true;  // no such call: wait without a limit
  pollfd ended = {handle, POLLIN, 0};
  int ready = 0;
  do {
    ready = poll(&ended, 1, kTimeoutMs);
  } while (ready < 0 && errno == EINTR);
  close(handle);
  return ready != 0;
}

}  // namespace

absl::Status TryArchitecture(const std::string& program, const std::string& architecture) {
  const std::string option = absl::StrCat(AbslView(kOption), architecture);
  char* arguments[] = {const_cast<char*>(program.c_str()), const_cast<char*>(option.c_str()),
                       nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = 0;
  const int failed = posix_spawn(&child, program.c_str(), &files, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) {
    return MakeError(v1::INTERNAL, absl::StrCat("cannot start ", program, " to try ", architecture,
                                                ": ", std::strerror(failed)));
  }
  const bool ended = AwaitEnd(child);
  if (!ended) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!ended) {
    return MakeError(v1::COMPILE_TIMEOUT,
                     absl::StrCat("hipRTC did not end within ", kTimeoutMs,
                                  " ms when it was tried ", "with ", architecture));
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return MakeError(
      v1::UNSUPPORTED_ARCHITECTURE,
      absl::StrCat("hipRTC does not compile for ", Quoted(architecture),
                   WIFSIGNALED(status) ? " (it ends its process with signal " : " (exit ",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), ")"));
}

std::optional<std::string> RequestedTrial(int argc, char** argv) {
  if (argc != 2 || !std::string_view(argv[1]).starts_with(kOption)) return std::nullopt;
  const rlimit no_core = {0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  return std::string(std::string_view(argv[1]).substr(kOption.size()));
}

}  // namespace kcache::backend::hip
