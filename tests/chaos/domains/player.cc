#include "tests/chaos/domains/player.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kcache::domains {
namespace {

std::string Program() {
  const char* directory = std::getenv("KCACHE_BINARY_DIR");
  return absl::StrCat(directory == nullptr ? "." : directory,
                      "/tests/chaos/domains/kcache-domains-player");
}

}  // namespace

int64_t MonotonicNow() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * int64_t{1'000'000'000} + now.tv_nsec;
}

absl::StatusOr<std::unique_ptr<Player>> Player::Start(std::optional<uid_t> uid,
                                                      std::vector<std::string> part,
                                                      OnLine on_line) {
  std::vector<std::string> command = {Program()};
  if (uid) command.push_back(absl::StrCat("--uid=", *uid));
  command.insert(command.end(), part.begin(), part.end());
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) {
    return absl::InternalError("cannot make a pipe");
  }
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  std::unique_ptr<Player> player(new Player(pid, in[1], out[0], std::move(on_line)));
  if (absl::Status ready = player->AwaitReady(); !ready.ok()) return ready;
  return player;
}

Player::Player(pid_t pid, int in, int out, OnLine on_line)
    : pid_(pid), in_(in), out_(out), on_line_(std::move(on_line)), listener_([this] { Listen(); }) {}

Player::~Player() {
  if (in_ >= 0) close(in_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  listener_.join();
  close(out_);
}

void Player::Listen() {
  std::string rest;
  char buffer[16 << 10];
  for (ssize_t n = 0; (n = read(out_, buffer, sizeof buffer)) > 0;) {
    rest.append(buffer, static_cast<size_t>(n));
    size_t start = 0;
    for (size_t end; (end = rest.find('\n', start)) != std::string::npos; start = end + 1) {
      std::string line = rest.substr(start, end - start);
      bool keep = true;
      {
        MutexLock lock(&mutex_);
        if (!ready_ && line == "ready") {
          ready_ = true;
          prologue_.swap(lines_);
          changed_.NotifyAll();
          continue;
        }
        keep = !ready_ || on_line_ == nullptr;
        if (keep) {
          lines_.push_back(std::move(line));
          changed_.NotifyAll();
        }
      }
      if (!keep) on_line_(line);
    }
    rest.erase(0, start);
  }
  MutexLock lock(&mutex_);
  ended_ = true;
  changed_.NotifyAll();
}

absl::Status Player::AwaitReady() {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(&mutex_);
  while (!ready_ && !ended_) {
    if (!changed_.WaitUntil(&mutex_, deadline)) break;
  }
  if (ready_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      "a player did not get ready: ", lines_.empty() ? "it said nothing" : lines_.back()));
}

void Player::Tell(const std::string& line) {
  const std::string text = line + "\n";
  for (size_t sent = 0; sent < text.size();) {
    const ssize_t n = write(in_, text.data() + sent, text.size() - sent);
    if (n <= 0) return;  // it has ended: Await says so
    sent += static_cast<size_t>(n);
  }
}

absl::StatusOr<std::string> Player::Await(const std::string& word) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  MutexLock lock(&mutex_);
  for (;;) {
    while (!lines_.empty()) {
      std::string line = std::move(lines_.front());
      lines_.erase(lines_.begin());
      if (line.starts_with(word)) return line;
      if (line.starts_with("broken")) return absl::InternalError(line);
    }
    if (ended_) return absl::UnavailableError("the player ended before it said '" + word + "'");
    if (!changed_.WaitUntil(&mutex_, deadline)) {
      return absl::DeadlineExceededError("the player does not say '" + word + "'");
    }
  }
}

absl::Status Player::Finish() {
  if (pid_ <= 0) return absl::OkStatus();
  if (in_ >= 0) close(in_);
  in_ = -1;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(
      "a player ended with ", WIFSIGNALED(status) ? "signal " : "status ",
      WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status)));
}

}  // namespace kcache::domains
