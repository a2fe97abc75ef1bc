// How a process ended, in the words of waitid(2).
//
// Threads: a value.

#ifndef KCACHE_DAEMON_WORKERS_EXIT_STATUS_H_
#define KCACHE_DAEMON_WORKERS_EXIT_STATUS_H_

#include <string>

namespace kcache::workers {

struct ExitStatus {
  // Why the supervisor ended it, when it did.
  enum class EndedFor { kNothing, kRequest, kMemory, kOutput, kProcesses };

  bool verified = false;  // the kernel reported the exit
  int code = 0;           // exit status, when `signal` is 0
  int signal = 0;
  EndedFor ended_for = EndedFor::kNothing;
  std::string why;         // for kRequest: what Kill was told
  std::string last_words;  // the end of its stderr
  std::string output;      // its stdout, when that was asked for

  bool clean() const { return verified && signal == 0 && code == 0; }
  std::string Describe() const;  // "exited with 0", "killed by SIGSEGV"
};

// "SIGSEGV", "signal 77".
std::string SignalName(int signal);

// "; last words: …", or nothing; one line, cut to what a message bears.
std::string LastWords(const std::string& last_words);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_EXIT_STATUS_H_
