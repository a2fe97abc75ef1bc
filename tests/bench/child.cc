#include "tests/bench/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>

namespace kcache::bench {

std::unique_ptr<Child> Child::Start(const std::vector<std::string>& command) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0) return nullptr;
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    return nullptr;
  }
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  if (pid < 0) {
    close(in[1]);
    close(out[0]);
    return nullptr;
  }
  return std::unique_ptr<Child>(new Child(pid, in[1], out[0]));
}

Child::~Child() {
  close(in_);
  close(out_);
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

bool Child::Say(const std::string& line) {
  const std::string bytes = line + "\n";
  return write(in_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
}

std::optional<std::string> Child::Listen() {
  while (true) {
    if (const size_t end = heard_.find('\n'); end != std::string::npos) {
      std::string line = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return line;
    }
    char buffer[512];
    const ssize_t size = read(out_, buffer, sizeof buffer);
    if (size <= 0) return std::nullopt;
    heard_.append(buffer, static_cast<size_t>(size));
  }
}

std::optional<std::string> HearParent() {
  std::string line;
  if (!std::getline(std::cin, line)) return std::nullopt;
  return line;
}

void TellParent(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

TemporaryFolder::TemporaryFolder() {
  char pattern[] = "/tmp/kcache-bench.XXXXXX";
  if (mkdtemp(pattern) != nullptr) path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

int ListenAt(const std::string& path) {
  const int listening = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  if (bind(listening, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(listening, SOMAXCONN) == 0) {
    return listening;
  }
  std::perror(path.c_str());
  close(listening);
  return -1;
}

}  // namespace kcache::bench
