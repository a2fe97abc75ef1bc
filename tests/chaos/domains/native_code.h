// G14: on a CPU device a kernel is native code. One of a stranger's tries to signal, trace and write
// another domain's host and the daemon, and to reach what the daemon keeps.
//
// Threads: one. Blocking.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_NATIVE_CODE_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_NATIVE_CODE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/chaos/domains/cast.h"

namespace kcache::domains {

struct NativeAttempt {
  std::string what;
  bool refused = false;
  std::string error;  // "EPERM"
};

struct NativeReport {
  std::string skipped;  // why this machine cannot try
  std::vector<NativeAttempt> attempts;
  int refused = 0;
  bool victim_is_fine = false;
};

absl::StatusOr<NativeReport> RunNativeCode(const Cast& cast);

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_NATIVE_CODE_H_
