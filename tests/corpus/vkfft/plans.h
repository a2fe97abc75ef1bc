// The transforms of the corpus.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_PLANS_H_
#define KCACHE_TESTS_CORPUS_VKFFT_PLANS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace kcache::corpus {

// A transform in place, of lines of `x` values or of planes of x × y.
struct Plan {
  size_t x = 1, y = 1;
  size_t batches = 1;
  bool double_precision = false;
  // Real values, two in the place of a complex one, to the x/2 + 1 complex values that say all, and
  // back. Lines have room for these, so real ones end with one or two that mean nothing.
  bool real = false;
  // In the second half of a buffer, which is said at the launch: in push constants, where the API
  // has such a thing.
  bool offset_at_launch = false;

  std::string name() const;
  size_t line() const { return real ? x / 2 + 1 : x; }    // complex values
  size_t values() const { return line() * y * batches; }  // complex values
};

// `offsets`: those with one, too.
std::vector<Plan> Plans(bool offsets);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_PLANS_H_
