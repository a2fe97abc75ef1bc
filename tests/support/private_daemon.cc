#include "tests/support/private_daemon.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

extern char** environ;

namespace kcache::testing {
namespace {

using Clock = std::chrono::steady_clock;
namespace fs = std::filesystem;

constexpr size_t kLogTailBytes = 4000;
// How long a poll lasts before a condition without an event of its own is looked at again.
constexpr int kLookAgainMs = 10;

std::string BinaryDirectory() {
  const char* directory = getenv("KCACHE_BINARY_DIR");
  return directory != nullptr ? directory : ".";
}

std::vector<std::string> DefaultBackendDirectories() {
  std::vector<std::string> directories;
  std::error_code error;
  for (const auto& folder : fs::directory_iterator(BinaryDirectory() + "/backends", error)) {
    std::error_code inner;
    for (const auto& file : fs::directory_iterator(folder.path(), inner)) {
      if (file.path().filename().string().starts_with("kcache-backend-") &&
          access(file.path().c_str(), X_OK) == 0 && file.is_regular_file(inner)) {
        directories.push_back(folder.path().string());
        break;
      }
    }
  }
  std::sort(directories.begin(), directories.end());
  return directories;
}

struct Child {
  pid_t pid;
  pid_t parent;
  char state;
  std::string name;
};

// /proc/<pid>/stat: "pid (name) state ppid …"; the name may contain anything.
bool ReadProcess(pid_t pid, Child* child) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/stat"));
  std::string line;
  if (!std::getline(file, line)) return false;
  const size_t open = line.find('('), close = line.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return false;
  child->pid = pid;
  child->name = line.substr(open + 1, close - open - 1);
  std::istringstream rest(line.substr(close + 1));
  return static_cast<bool>(rest >> child->state >> child->parent);
}

// Everything below process `root` that is not a zombie.
std::vector<Child> Descendants(pid_t root) {
  std::vector<Child> all, below;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename().string();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    Child child;
    if (ReadProcess(static_cast<pid_t>(std::stol(name)), &child)) all.push_back(child);
  }
  std::vector<pid_t> parents = {root};
  while (!parents.empty()) {
    const pid_t parent = parents.back();
    parents.pop_back();
    for (const Child& child : all) {
      if (child.parent != parent) continue;
      parents.push_back(child.pid);
      if (child.state != 'Z') below.push_back(child);
    }
  }
  return below;
}

int RemainingMs(Clock::time_point deadline) {
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return static_cast<int>(std::max<int64_t>(0, left));
}

bool CanConnect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) return false;
  memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return false;
  const bool connected =
      connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return connected;
}

// What runs in the keeper, between fork and exec of a process with threads: system calls only.
[[noreturn]] void Keep(int reports, int log, char* const* argv, char* const* envp) {
  // The keeper goes with the test, and the daemon with the keeper.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  prctl(PR_SET_CHILD_SUBREAPER, 1);
  const pid_t daemon = fork();
  if (daemon == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(log, STDOUT_FILENO);
    dup2(log, STDERR_FILENO);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    execve(argv[0], argv, envp);
    const char* why = strerrordesc_np(errno);
    [[maybe_unused]] ssize_t ignored = write(STDERR_FILENO, "cannot execute kcached: ", 24);
    ignored = write(STDERR_FILENO, why, strlen(why));
    _exit(126);
  }
  [[maybe_unused]] ssize_t ignored = write(reports, &daemon, sizeof(daemon));
  int status = 0;
  for (pid_t child; (child = waitpid(-1, &status, 0)) > 0 || errno == EINTR;) {
    if (child == daemon) ignored = write(reports, &status, sizeof(status));
  }
  _exit(0);
}

}  // namespace

absl::StatusOr<std::unique_ptr<PrivateDaemon>> PrivateDaemon::Start(PrivateDaemonOptions options) {
  auto daemon = std::unique_ptr<PrivateDaemon>(new PrivateDaemon(std::move(options)));
  absl::Status up = daemon->MakeDirectory();
  if (up.ok()) up = daemon->Launch();
  if (up.ok()) up = daemon->AwaitSocket();
  if (!up.ok()) return up;
  return daemon;
}

PrivateDaemon::~PrivateDaemon() {
  if (keeper_ > 0) Kill().IgnoreError();
  if (keeper_pidfd_ >= 0) close(keeper_pidfd_);
  if (reports_ >= 0) close(reports_);
  std::error_code error;
  if (!directory_.empty()) fs::remove_all(directory_, error);
}

absl::Status PrivateDaemon::Restart() {
  if (keeper_ > 0) return absl::FailedPreconditionError("kcached still runs");
  for (int* fd : {&keeper_pidfd_, &reports_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
  absl::Status up = Launch();
  return up.ok() ? AwaitSocket() : up;
}

absl::Status PrivateDaemon::MakeDirectory() {
  // Short, because a socket's path has at most 107 bytes.
  std::string pattern = "/tmp/kcache-test-XXXXXX";
  if (mkdtemp(pattern.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("mkdtemp ", pattern, ": ", strerror(errno)));
  }
  directory_ = pattern;
  // A daemon that is root runs its workers as other users, who have to get through to their
  // folders.
  if (chmod(directory_.c_str(), 0711) != 0) {
    return absl::InternalError(absl::StrCat("chmod ", directory_, ": ", strerror(errno)));
  }
  for (const char* part : {"run", "state", "cache"}) {
    fs::create_directory(directory_ + "/" + part);
    fs::permissions(directory_ + "/" + part, fs::perms(0711));
  }
  return absl::OkStatus();
}

absl::Status PrivateDaemon::Launch() {
  const std::string program =
      options_.program.empty() ? BinaryDirectory() + "/daemon/kcached" : options_.program;
  std::vector<std::string> directories = options_.backend_directories;
  if (directories.empty()) directories = DefaultBackendDirectories();
  std::vector<std::string> arguments = {
      program,
      "--runtime-dir=" + directory_ + "/run",
      "--socket=" + socket(),
      "--admin-socket=" + admin_socket(),
      "--state-dir=" + directory_ + "/state",
      "--backends.directories=" + absl::StrJoin(directories, ":")};
  arguments.insert(arguments.end(), options_.flags.begin(), options_.flags.end());

  std::map<std::string, std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    const size_t equals = text.find('=');
    if (equals == std::string::npos || text.starts_with("KCACHE")) continue;
    variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  variables["XDG_RUNTIME_DIR"] = directory_ + "/run";
  variables["XDG_CACHE_HOME"] = directory_ + "/cache";
  for (const auto& [name, value] : options_.environment) variables[name] = value;
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) environment.push_back(name + "=" + value);

  std::vector<char*> argv, envp;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  for (std::string& variable : environment) envp.push_back(variable.data());
  envp.push_back(nullptr);

  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("pipe2: ", strerror(errno)));
  }
  reports_ = pipe_fds[0];
  const std::string log_path = directory_ + "/log";
  const int log = open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  keeper_ = fork();
  if (keeper_ == 0) Keep(pipe_fds[1], log, argv.data(), envp.data());
  close(pipe_fds[1]);
  close(log);
  if (keeper_ < 0) return absl::InternalError(absl::StrCat("fork: ", strerror(errno)));
  keeper_pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, keeper_, 0));
  if (keeper_pidfd_ < 0) return absl::InternalError(absl::StrCat("pidfd_open: ", strerror(errno)));
  if (read(reports_, &pid_, sizeof(pid_)) != static_cast<ssize_t>(sizeof(pid_)) || pid_ <= 0) {
    pid_ = -1;
    return absl::InternalError(absl::StrCat("cannot start ", program));
  }
  return absl::OkStatus();
}

absl::Status PrivateDaemon::AwaitSocket() {
  const Clock::time_point deadline = Clock::now() + options_.start_timeout;
  while (!CanConnect(socket())) {
    // Wakes at once when the daemon dies.
    pollfd event = {reports_, POLLIN, 0};
    if (poll(&event, 1, kLookAgainMs) > 0) {
      return absl::InternalError(absl::StrCat("kcached died while starting:\n", LogTail()));
    }
    if (Clock::now() > deadline) {
      return absl::DeadlineExceededError(
          absl::StrCat("kcached does not listen at ", socket(), ":\n", LogTail()));
    }
  }
  return absl::OkStatus();
}

std::string PrivateDaemon::Log() const {
  std::ifstream file(directory_ + "/log");
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

std::string PrivateDaemon::LogTail() const {
  const std::string log = Log();
  return log.size() <= kLogTailBytes ? log : "…" + log.substr(log.size() - kLogTailBytes);
}

absl::StatusOr<int> PrivateDaemon::AwaitExit() {
  const Clock::time_point deadline = Clock::now() + options_.stop_timeout;
  pollfd event = {reports_, POLLIN, 0};
  while (poll(&event, 1, RemainingMs(deadline)) <= 0) {
    if (Clock::now() < deadline) continue;
    return absl::DeadlineExceededError(
        absl::StrCat("kcached (pid ", pid_, ") does not end:\n", LogTail()));
  }
  int status = 0;
  if (read(reports_, &status, sizeof(status)) != static_cast<ssize_t>(sizeof(status))) {
    return absl::InternalError("the keeper of kcached died");
  }
  pid_ = -1;
  return status;
}

absl::Status PrivateDaemon::AwaitNothingLeft() {
  const Clock::time_point deadline = Clock::now() + options_.stop_timeout;
  pollfd event = {keeper_pidfd_, POLLIN, 0};
  while (poll(&event, 1, RemainingMs(deadline)) <= 0 && Clock::now() < deadline) {
  }
  std::vector<std::string> names;
  for (const Child& child : Descendants(keeper_)) {
    names.push_back(absl::StrCat(child.pid, " ", child.name));
    kill(child.pid, SIGKILL);
  }
  if (!names.empty()) kill(keeper_, SIGKILL);
  waitpid(keeper_, nullptr, 0);
  keeper_ = -1;
  if (names.empty()) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("left by kcached: ", absl::StrJoin(names, ", "), "\n", LogTail()));
}

absl::Status PrivateDaemon::Stop() {
  if (pid_ <= 0) return absl::OkStatus();
  kill(pid_, SIGTERM);
  auto status = AwaitExit();
  if (!status.ok()) {
    Kill().IgnoreError();
    return status.status();
  }
  absl::Status left = AwaitNothingLeft();
  if (!left.ok()) return left;
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("kcached ended with ",
                                          WIFSIGNALED(*status)
                                              ? absl::StrCat("signal ", WTERMSIG(*status))
                                              : absl::StrCat("exit status ", WEXITSTATUS(*status)),
                                          ":\n", LogTail()));
}

absl::Status PrivateDaemon::Kill() {
  if (keeper_ <= 0) return absl::OkStatus();
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    auto status = AwaitExit();
    if (!status.ok()) return status.status();
  }
  return AwaitNothingLeft();
}

std::vector<std::string> PrivateDaemon::Processes() const {
  std::vector<std::string> names;
  if (keeper_ <= 0) return names;
  for (const Child& child : Descendants(keeper_)) {
    names.push_back(absl::StrCat(child.pid, " ", child.name));
  }
  return names;
}

}  // namespace kcache::testing
