// How much compile time each trust domain has used in the last ten minutes: a sliding window.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_COMPILE_TIMES_H_
#define KCACHE_DAEMON_CORE_COMPILE_TIMES_H_

#include <deque>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "daemon/core/dependencies.h"

namespace kcache::core {

class CompileTimes {
 public:
  static constexpr absl::Duration kWindow = absl::Minutes(10);

  explicit CompileTimes(const Clock* clock) : clock_(clock) {}

  // A compile of the domain's has just ended, however it did.
  void Charge(const std::string& domain, absl::Duration took);
  absl::Duration Spent(const std::string& domain);
  // How long until less than `limit` of what has been charged is left in the window.
  absl::Duration BelowIn(const std::string& domain, absl::Duration limit);

 private:
  struct Entry {
    absl::Duration ended;
    absl::Duration took;
    std::string domain;
  };
  void Forget();

  const Clock* const clock_;
  std::deque<Entry> entries_;  // oldest first; no more than there were compiles in the window
  absl::flat_hash_map<std::string, absl::Duration> spent_;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_COMPILE_TIMES_H_
