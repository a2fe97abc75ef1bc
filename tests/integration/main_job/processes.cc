#include "tests/integration/main_job/processes.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace kcache::testing {

std::string Built(const std::string& relative) {
  const char* directory = std::getenv("KCACHE_BINARY_DIR");
  return std::string(directory == nullptr ? "." : directory) + "/" + relative;
}

std::unique_ptr<Process> Process::Start(const std::vector<std::string>& command) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return nullptr;
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  close(in[0]);
  close(out[1]);
  return std::unique_ptr<Process>(new Process(pid, in[1], out[0]));
}

void Process::Go() {
  if (in_ >= 0) close(in_);
  in_ = -1;
}

Finished Process::Wait() {
  Go();
  Finished finished;
  char buffer[4096];
  ssize_t size;
  while ((size = read(out_, buffer, sizeof buffer)) > 0) {
    finished.output.append(buffer, static_cast<size_t>(size));
  }
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  finished.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return finished;
}

Process::~Process() {
  Go();
  close(out_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

Finished Run(const std::vector<std::string>& command) {
  auto process = Process::Start(command);
  return process == nullptr ? Finished{} : process->Wait();
}

}  // namespace kcache::testing
