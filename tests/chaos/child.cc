#include "tests/chaos/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

extern char** environ;

namespace kcache::chaos {

absl::StatusOr<std::unique_ptr<Child>> Child::Start(std::vector<std::string> command,
                                                    const std::string& output) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::InternalError(absl::StrCat("pipe2: ", strerror(errno)));
  }
  fcntl(ends[1], F_SETFL, O_NONBLOCK);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_APPEND, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, words[0], &actions, nullptr, words.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[0]);
  if (error != 0) {
    close(ends[1]);
    return absl::InternalError(absl::StrCat("starting ", command[0], ": ", strerror(error)));
  }
  const int pidfd = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  return std::unique_ptr<Child>(new Child(pid, ends[1], pidfd));
}

Child::~Child() {
  close(input_);
  if (!reaped_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  close(pidfd_);
}

void Child::Signal(int number) const {
  if (!reaped_) kill(pid_, number);
}

void Child::Say(char command) const {
  [[maybe_unused]] const ssize_t ignored = write(input_, &command, 1);
}

std::optional<std::string> Child::Ended() {
  if (reaped_) return end_;
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
  reaped_ = true;
  end_ = WIFSIGNALED(status) ? absl::StrCat("signal ", WTERMSIG(status))
                             : absl::StrCat("exit ", WEXITSTATUS(status));
  return end_;
}

std::optional<std::string> Child::AwaitEnd(std::chrono::milliseconds limit) {
  pollfd event{pidfd_, POLLIN, 0};
  poll(&event, 1, static_cast<int>(limit.count()));
  return Ended();
}

}  // namespace kcache::chaos
