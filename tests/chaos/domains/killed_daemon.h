// Nothing is left of a daemon that is killed while it is busy, and a new one serves at once.
//
// Threads: one. Blocking.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_KILLED_DAEMON_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_KILLED_DAEMON_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/chaos/domains/cast.h"

namespace kcache::domains {

struct KilledDaemonReport {
  int hosts = 0;    // that ran a kernel
  int workers = 0;  // that compiled
  int processes = 0;               // of the daemon, itself not counted
  std::vector<std::string> left;   // "pid name", one second after the kill
  double gone_ms = 0;              // when the last of them was gone, if all were
  double serving_ms = 0;           // from starting the new daemon to its first good launch
};

// Two domains on two devices: four hosts; and two compiles.
absl::StatusOr<KilledDaemonReport> KillDaemon(const Cast& cast);

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_KILLED_DAEMON_H_
