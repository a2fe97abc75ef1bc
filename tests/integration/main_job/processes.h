// Client processes and operators' commands, run and read by tests.
//
// Threads: one at a time.

#ifndef KCACHE_TESTS_INTEGRATION_MAIN_JOB_PROCESSES_H_
#define KCACHE_TESTS_INTEGRATION_MAIN_JOB_PROCESSES_H_

#include <sys/types.h>

#include <memory>
#include <string>
#include <vector>

namespace kcache::testing {

struct Finished {
  int exit_status = -1;  // 128 + signal when it was killed
  std::string output;    // what it wrote to stdout
};

// A process that has been started and waits for its standard input to close.
class Process {
 public:
  static std::unique_ptr<Process> Start(const std::vector<std::string>& command);
  ~Process();
  pid_t pid() const { return pid_; }
  // Closes its standard input.
  void Go();
  // Goes, if it has not, reads what it says and waits for its end.
  Finished Wait();

 private:
  Process(pid_t pid, int in, int out) : pid_(pid), in_(in), out_(out) {}
  pid_t pid_;
  int in_;
  int out_;
};

Finished Run(const std::vector<std::string>& command);

// "<build directory>/relative".
std::string Built(const std::string& relative);

}  // namespace kcache::testing

#endif  // KCACHE_TESTS_INTEGRATION_MAIN_JOB_PROCESSES_H_
