// The transforms of the corpus.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_PLANS_H_
#define KCACHE_TESTS_CORPUS_VKFFT_PLANS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace kcache::corpus {

// A complex transform of single precision, of lines of `x` values or of planes of x × y.
struct Plan {
  size_t x = 1, y = 1;
  size_t batches = 1;

  std::string name() const;
  size_t values() const { return x * y * batches; }
};

std::vector<Plan> Plans();

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_PLANS_H_
