// Checks over a run's histories: each stands for one guarantee, looks at every fact that bears on it, and
// names each violation. How many facts it looked at is part of the answer: a check of nothing proves nothing.
//
// Threads: pure functions.

#ifndef KCACHE_TESTS_CHAOS_VALIDATE_VALIDATOR_H_
#define KCACHE_TESTS_CHAOS_VALIDATE_VALIDATOR_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/chaos/validate/run.h"

namespace kcache::chaos {

struct Verdict {
  uint64_t facts = 0;
  // Facts that could not be judged, for a reason the guarantee allows: the client was killed, the context
  // was lost.
  uint64_t excused = 0;
  std::vector<std::string> violations;
};

Verdict NothingExecutesAfterRelease(const Run& run);
Verdict ReleaseWaitsForHolders(const Run& run);
Verdict ValidLaunchesAreTaken(const Run& run);
Verdict ToldBeforeAndAfter(const Run& run);
Verdict BuiltIsDestroyedOrRetained(const Run& run);
Verdict LeasesEndWithTheirSession(const Run& run);
Verdict OneCompile(const Run& run);
Verdict OperationsEndInTime(const Run& run);
Verdict NothingIsLeftBehind(const Run& run);
Verdict NobodyCrashes(const Run& run);

struct Validator {
  std::string_view name;
  std::string_view guarantee;
  Verdict (*check)(const Run&);
};

const std::vector<Validator>& AllValidators();

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_VALIDATE_VALIDATOR_H_
