#include "tests/chaos/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <tuple>

namespace kcache::chaos {

static bool operator==(const Step& a, const Step& b) {
  return std::tie(a.at_ms, a.kind, a.target, a.duration_ms) ==
         std::tie(b.at_ms, b.kind, b.target, b.duration_ms);
}

namespace {

TEST(Plan, ASeedStandsForOneScript) {
  EXPECT_EQ(MakePlan({.seed = 4, .seconds = 60}), MakePlan({.seed = 4, .seconds = 60}));
  EXPECT_FALSE(MakePlan({.seed = 4, .seconds = 60}) == MakePlan({.seed = 5, .seconds = 60}));
}

TEST(Plan, WhatIsStoppedGoesOnAndStepsAreInOrder) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::map<StepKind, int> counts;
    uint64_t last = 0;
    for (const Step& step : MakePlan({.seed = seed, .seconds = 120})) {
      EXPECT_GE(step.at_ms, last);
      last = step.at_ms;
      ++counts[step.kind];
    }
    EXPECT_EQ(counts[StepKind::kStopClient], counts[StepKind::kContinueClient]);
    EXPECT_EQ(counts[StepKind::kStopHost], counts[StepKind::kContinueHost]);
    EXPECT_EQ(counts[StepKind::kStopDaemon], counts[StepKind::kContinueDaemon]);
  }
}

TEST(Plan, ALongRunHasEveryKindOfStep) {
  std::map<StepKind, int> counts;
  for (const Step& step : MakePlan({.seed = 1, .seconds = 600})) ++counts[step.kind];
  for (int kind = 0; kind <= static_cast<int>(StepKind::kEndRude); ++kind) {
    const auto step = static_cast<StepKind>(kind);
    if (step == StepKind::kDeviceUp) continue;  // comes with what took the device down
    EXPECT_GT(counts[step], 0) << Name(step);
  }
}

}  // namespace
}  // namespace kcache::chaos
