#include "tests/corpus/vkfft/plans.h"

#include <utility>

namespace kcache::corpus {

std::string Plan::name() const {
  std::string text = std::to_string(x);
  if (y > 1) text += "x" + std::to_string(y);
  if (batches > 1) text += ", " + std::to_string(batches) + " at once";
  if (real) text += ", real";
  if (double_precision) text += ", double";
  if (offset_at_launch) text += ", at an offset";
  return text;
}

// Powers of two and of other radices, mixed ones, primes (Rader's and Bluestein's algorithms),
// sizes that take more than one kernel, planes, batches.
std::vector<Plan> Plans(bool offsets) {
  std::vector<Plan> plans;
  for (const size_t size :
       {2,   3,   4,   5,   6,   7,    8,    9,    11,   12,   13,   16,   17,
        19,  27,  32,  49,  64,  97,   100,  121,  125,  128,  169,  210,  243,
        256, 343, 360, 512, 729, 1000, 1009, 1024, 2048, 3125, 4096, 8192, 32768}) {
    plans.push_back({.x = size});
  }
  for (const size_t size : {16, 60, 128, 256}) plans.push_back({.x = size, .batches = 7});
  for (const auto& [x, y] :
       {std::pair<size_t, size_t>{16, 16}, {64, 32}, {30, 42}, {128, 128}, {17, 8}, {100, 75}}) {
    plans.push_back({.x = x, .y = y});
  }
  for (const size_t size : {8, 17, 27, 64, 100, 1024}) {
    plans.push_back({.x = size, .double_precision = true});
  }
  plans.push_back({.x = 30, .y = 42, .double_precision = true});
  for (const size_t size : {8, 17, 30, 128, 1000}) plans.push_back({.x = size, .real = true});
  plans.push_back({.x = 60, .batches = 7, .real = true});
  plans.push_back({.x = 64, .y = 32, .real = true});
  plans.push_back({.x = 64, .double_precision = true, .real = true});
  if (!offsets) return plans;
  for (const size_t size : {64, 1000, 32768}) {
    plans.push_back({.x = size, .offset_at_launch = true});
  }
  plans.push_back({.x = 30, .y = 42, .offset_at_launch = true});
  return plans;
}

}  // namespace kcache::corpus
