// Samples of one quantity and their percentiles.
//
// Threads: one at a time.

#ifndef KCACHE_TESTS_BENCH_SAMPLES_H_
#define KCACHE_TESTS_BENCH_SAMPLES_H_

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace kcache::bench {

class Samples {
 public:
  void Add(double value) {
    values_.push_back(value);
    sorted_ = false;
  }
  size_t size() const { return values_.size(); }
  // `part` in 0 … 1: 0.5 is the median.
  double Percentile(double part) {
    if (values_.empty()) return 0;
    if (!sorted_) std::sort(values_.begin(), values_.end());
    sorted_ = true;
    const size_t at = static_cast<size_t>(part * static_cast<double>(values_.size() - 1) + 0.5);
    return values_[at];
  }
  double p50() { return Percentile(0.5); }
  double p99() { return Percentile(0.99); }

 private:
  std::vector<double> values_;
  bool sorted_ = false;
};

// Microseconds since construction.
class Stopwatch {
 public:
  double Microseconds() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_)
        .count();
  }

 private:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace kcache::bench

#endif  // KCACHE_TESTS_BENCH_SAMPLES_H_
