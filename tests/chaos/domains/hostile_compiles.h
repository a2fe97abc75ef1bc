// G9: hostile programs are compiled, one after the other, while other clients of another domain
// acquire kernels. Each must fail alone, with a typed reason.
//
// Threads: one. Blocking.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_HOSTILE_COMPILES_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_HOSTILE_COMPILES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/chaos/domains/cast.h"
#include "tests/chaos/domains/failures.h"

namespace kcache::domains {

struct HostileOutcome {
  std::string kind = {}, how = {}, compiler = {};
  bool contained = false;
  std::string reason = {};   // "COMPILE_TIMEOUT"
  std::string message = {};  // the first line
  double seconds = 0;
};

struct HostileReport {
  std::vector<HostileOutcome> outcomes;
  int kinds = 0;
  int kinds_contained = 0;  // every program of the kind was
  uint64_t memory_before = 0, memory_after = 0;  // resident bytes of kcached
  Failures other_failures;  // acquires of the other clients
  uint64_t acquires_quiet = 0, acquires_during = 0;
  double p99_quiet_us = 0, p99_during_us = 0;  // interleaved
  bool good_compile_after = false;
};

// kcached's own memory may differ by this much at the end: allocators keep what was used once.
inline constexpr uint64_t kMemorySlack = 32u << 20;

absl::StatusOr<HostileReport> CompileHostilePrograms(const Cast& cast);

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_HOSTILE_COMPILES_H_
