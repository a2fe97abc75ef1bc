// The end of a run: a table for people and the summary line.
//
// Threads: pure function.

#ifndef KCACHE_TESTS_CHAOS_REPORT_H_
#define KCACHE_TESTS_CHAOS_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {

struct Outcome {
  uint64_t operations = 0;
  uint64_t faults = 0;
  uint64_t violations = 0;
  std::vector<std::string> violated;  // names of validators
};

// Judges the run, prints, and answers what was found. `must_check_all`: a validator without a fact is a
// violation.
Outcome Report(const Run& run, bool must_check_all);

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_REPORT_H_
