// A process that the controller started: with a pipe to its standard input, and its output in a file.
//
// Threads: one, which also lives as long as the children: they end with it.

#ifndef KCACHE_TESTS_CHAOS_CHILD_H_
#define KCACHE_TESTS_CHAOS_CHILD_H_

#include <sys/types.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kcache::chaos {

class Child {
 public:
  static absl::StatusOr<std::unique_ptr<Child>> Start(std::vector<std::string> command,
                                                      const std::string& output);
  ~Child();  // kills
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int number) const;
  void Say(char command) const;  // dropped when its pipe is full

  // How it ended ("exit 0", "signal 6"), or nothing yet.
  std::optional<std::string> Ended();
  // The same, waiting.
  std::optional<std::string> AwaitEnd(std::chrono::milliseconds limit);

 private:
  Child(pid_t pid, int input, int pidfd) : pid_(pid), input_(input), pidfd_(pidfd) {}

  const pid_t pid_;
  const int input_;
  const int pidfd_;
  bool reaped_ = false;
  std::string end_;
};

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_CHILD_H_
