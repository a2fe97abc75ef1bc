// G8: a host is killed again and again, and nobody but its own domain notices.
//
// Eight clients of two domains launch without end (as an ordinary user: of eight domains). The host of
// the first client's domain is killed by SIGSEGV as often as asked.
//
// Threads: one. Blocking.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_HOST_CRASHES_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_HOST_CRASHES_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/chaos/domains/cast.h"
#include "tests/chaos/domains/failures.h"

namespace kcache::domains {

struct HostCrashReport {
  int crashes = 0;
  uint64_t own_launches = 0, own_failures = 0;
  uint64_t other_launches = 0;
  Failures other_failures;
  // From each crash to the end of the first good launch that began after it.
  std::vector<double> recover_ms;
};

absl::StatusOr<HostCrashReport> CrashHosts(const Cast& cast, int crashes);

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_HOST_CRASHES_H_
