// What a plan is given, and its transform by the definition, in double precision.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_REFERENCE_H_
#define KCACHE_TESTS_CORPUS_VKFFT_REFERENCE_H_

#include <algorithm>
#include <complex>
#include <cstddef>
#include <vector>

#include "tests/corpus/vkfft/plans.h"

namespace kcache::corpus {

using Value = std::complex<float>;

std::vector<Value> InputOf(const Plan& plan);

std::vector<std::complex<double>> Transformed(const Plan& plan, const std::vector<Value>& in);

// The largest difference, as a part of the largest value.
template <class A, class B>
double Difference(const std::vector<A>& got, const std::vector<B>& expected) {
  double most = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const std::complex<double> exact(expected[i]);
    const double one = std::abs(std::complex<double>(got[i]) - exact);
    if (!(one <= difference)) difference = one;  // NaN, too
    most = std::max(most, std::abs(exact));
  }
  return difference / most;
}

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_REFERENCE_H_
