#include "backends/cudalike/fill_pattern.h"

#include <algorithm>
#include <cstring>

namespace kcache::backend::cudalike {
namespace {

// The shortest pattern that repeats to the same bytes.
std::string_view Shortest(std::string_view pattern) {
  while (pattern.size() > 1) {
    const size_t half = pattern.size() / 2;
    if (pattern.substr(0, half) != pattern.substr(half)) break;
    pattern = pattern.substr(0, half);
  }
  return pattern;
}

}  // namespace

FillPlan PlanFill(uint64_t address, uint64_t bytes, std::string_view pattern) {
  FillPlan plan;
  const std::string_view unit = Shortest(pattern);
  if (unit.size() <= sizeof(plan.value) && address % unit.size() == 0) {
    plan.width = static_cast<uint32_t>(unit.size());
    std::memcpy(&plan.value, unit.data(), unit.size());
    plan.count = bytes / unit.size();
    return plan;
  }
  const uint64_t seed_bytes = std::min<uint64_t>(bytes, kSeedBytes);
  plan.seed.reserve(seed_bytes);
  while (plan.seed.size() < seed_bytes) plan.seed.append(unit);
  return plan;
}

}  // namespace kcache::backend::cudalike
