// One plan of VkFFT's, whatever API it speaks.
//
// Threads: one, and one object at a time: the APIs' functions have no state to pass.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_TRANSFORM_H_
#define KCACHE_TESTS_CORPUS_VKFFT_TRANSFORM_H_

#include <vector>

#include "absl/status/status.h"
#include "tests/corpus/vkfft/plans.h"
#include "tests/corpus/vkfft/reference.h"

namespace kcache::corpus {

struct Counts {
  int programs = 0;  // that VkFFT generated
  int compiled = 0;  // of them
  int launches = 0;
};

// As VkFFT counts.
enum class Direction : int { kForward = -1, kInverse = 1 };

class Transform {
 public:
  virtual ~Transform() = default;

  // Generates and compiles the plan's programs, for both directions.
  virtual absl::Status Make(const Plan& plan) = 0;

  // Only where there is a device. In place, and synchronous: `out` has the result.
  virtual absl::Status Run(Direction direction, const std::vector<Value>& in,
                           std::vector<Value>* out) = 0;

  virtual Counts counts() const = 0;
};

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_TRANSFORM_H_
