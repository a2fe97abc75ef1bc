// Processes of the benchmarks' own, spoken to in lines, and folders that go with their owner.
//
// Threads: one at a time.

#ifndef KCACHE_TESTS_BENCH_CHILD_H_
#define KCACHE_TESTS_BENCH_CHILD_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kcache::bench {

class Child {
 public:
  // Dies with this process.
  static std::unique_ptr<Child> Start(const std::vector<std::string>& command);
  ~Child();
  pid_t pid() const { return pid_; }

  bool Say(const std::string& line);
  // Without the newline; nothing: it has ended.
  std::optional<std::string> Listen();

 private:
  Child(pid_t pid, int in, int out) : pid_(pid), in_(in), out_(out) {}
  const pid_t pid_;
  const int in_;
  const int out_;
  std::string heard_;
};

// The other end: one line of standard input, and one to standard output, at once.
std::optional<std::string> HearParent();
void TellParent(const std::string& line);

class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A listening socket; -1 and a message when there is none.
int ListenAt(const std::string& path);

}  // namespace kcache::bench

#endif  // KCACHE_TESTS_BENCH_CHILD_H_
