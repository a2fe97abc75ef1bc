// What a plan is given, and its transform by the definition, in double precision.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_REFERENCE_H_
#define KCACHE_TESTS_CORPUS_VKFFT_REFERENCE_H_

#include <complex>
#include <vector>

#include "tests/corpus/vkfft/plans.h"

namespace kcache::corpus {

// Of single precision, where the plan is, the values that a float has.
using Value = std::complex<double>;

std::vector<Value> InputOf(const Plan& plan);

std::vector<Value> Transformed(const Plan& plan, const std::vector<Value>& in);

// What of an input, or of what came back, means something: all, or the real values without what
// fills their lines.
std::vector<Value> Meant(const Plan& plan, const std::vector<Value>& in);

// The largest difference, as a part of the largest value; NaN when a value is.
double Difference(const std::vector<Value>& got, const std::vector<Value>& expected);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_REFERENCE_H_
