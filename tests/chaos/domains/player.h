// The test's end of a player process (player/player.h): starts it, hears its lines, tells it things.
//
// Threads: any; `on_line` runs on a thread of the player's own. Ownership: the destructor ends the
// process.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_PLAYER_PROCESS_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_PLAYER_PROCESS_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "contract/mutex.h"

namespace kcache::domains {

class Player {
 public:
  using OnLine = std::function<void(const std::string&)>;
  static constexpr std::chrono::seconds kPatience{120};

  // Waits until it is ready. Every line after "ready" is kept, or goes to `on_line` if there is one.
  static absl::StatusOr<std::unique_ptr<Player>> Start(std::optional<uid_t> uid,
                                                       std::vector<std::string> part,
                                                       OnLine on_line = nullptr);
  ~Player();

  pid_t pid() const { return pid_; }
  void Tell(const std::string& line);
  // The next kept line that starts with `word`; what comes before it is dropped. DeadlineExceeded,
  // or Unavailable when the process has ended without it.
  absl::StatusOr<std::string> Await(const std::string& word);
  // What it said before it was ready: "captured …".
  const std::vector<std::string>& prologue() const { return prologue_; }
  // Ends its standard input and waits for its end: an error unless it exits with 0.
  absl::Status Finish();

 private:
  Player(pid_t pid, int in, int out, OnLine on_line);
  void Listen();
  absl::Status AwaitReady();

  pid_t pid_;
  int in_;
  const int out_;
  const OnLine on_line_;
  Mutex mutex_;
  CondVar changed_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> prologue_;
  std::thread listener_;
};

int64_t MonotonicNow();

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_PLAYER_PROCESS_H_
