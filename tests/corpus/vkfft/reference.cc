#include "tests/corpus/vkfft/reference.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numbers>

namespace kcache::corpus {
namespace {

// One line of `count` values, `stride` apart, by the definition.
void TransformLine(std::vector<Value>* values, size_t first, size_t count, size_t stride) {
  std::vector<Value> roots(count);
  for (size_t k = 0; k < count; ++k) {
    roots[k] = std::polar(
        1.0, -2 * std::numbers::pi * static_cast<double>(k) / static_cast<double>(count));
  }
  std::vector<Value> line(count);
  for (size_t k = 0; k < count; ++k) {
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
      line[k] += (*values)[first + i * stride] * roots[at];
      at += k;
      if (at >= count) at -= count;
    }
  }
  for (size_t k = 0; k < count; ++k) (*values)[first + k * stride] = line[k];
}

}  // namespace

std::vector<Value> InputOf(const Plan& plan) {
  const auto part = [](size_t n) {
    return static_cast<double>(static_cast<float>(n * 2654435761u % 2000) / 1000 - 1);
  };
  std::vector<Value> in(plan.values());
  for (size_t i = 0; i < in.size(); ++i) in[i] = {part(2 * i), part(2 * i + 1)};
  return in;
}

std::vector<Value> Meant(const Plan& plan, const std::vector<Value>& in) {
  if (!plan.real) return in;
  std::vector<Value> values;
  for (size_t line = 0; line < plan.y * plan.batches; ++line) {
    for (size_t i = 0; i < plan.x; ++i) {
      const Value& pair = in[line * plan.line() + i / 2];
      values.emplace_back(i % 2 == 0 ? pair.real() : pair.imag());
    }
  }
  return values;
}

std::vector<Value> Transformed(const Plan& plan, const std::vector<Value>& in) {
  std::vector<Value> values = Meant(plan, in);
  for (size_t batch = 0; batch < plan.batches; ++batch) {
    const size_t start = batch * plan.x * plan.y;
    for (size_t y = 0; y < plan.y; ++y) TransformLine(&values, start + y * plan.x, plan.x, 1);
    if (plan.y == 1) continue;
    for (size_t x = 0; x < plan.x; ++x) TransformLine(&values, start + x, plan.y, plan.x);
  }
  std::vector<Value> kept;
  for (size_t line = 0; line < plan.y * plan.batches; ++line) {
    const auto first = values.begin() + static_cast<ptrdiff_t>(line * plan.x);
    kept.insert(kept.end(), first, first + static_cast<ptrdiff_t>(plan.line()));
  }
  return kept;
}

double Difference(const std::vector<Value>& got, const std::vector<Value>& expected) {
  double most = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double one = std::abs(got[i] - expected[i]);
    if (std::isnan(one)) return one;
    difference = std::max(difference, one);
    most = std::max(most, std::abs(expected[i]));
  }
  return difference / most;
}

}  // namespace kcache::corpus
