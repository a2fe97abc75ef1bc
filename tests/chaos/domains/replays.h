// G14: what a stranger has captured of a session is of no use to him; each attempt is refused with a
// typed reason, and logged.
//
// Threads: one. Blocking.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_REPLAYS_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_REPLAYS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/chaos/domains/cast.h"

namespace kcache::domains {

struct ReplayKind {
  std::string what = {};     // "lease"
  int tried = 0;
  int refused = 0;      // with a typed reason
  std::string reason = {};   // the last one
  std::string event = {};    // the kind of event that says so in the log
};

struct ReplayReport {
  std::vector<ReplayKind> kinds;
  int tried = 0, refused = 0;
  int logged = 0;             // events heard, at most one counts for each attempt
  bool victim_is_fine = false;  // afterwards, everything still works
};

absl::StatusOr<ReplayReport> ReplaySecrets(const Cast& cast, int rounds);

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_REPLAYS_H_
