#include "contract/find_or_build.h"

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using ::kcache::testing::Gate;
using ::testing::HasSubstr;

using Cache = GuardedCache<std::string, int>;
const DeviceName kDevice{"CUDA", 0};

class FindOrBuildTest : public ::testing::Test {
 protected:
  absl::StatusOr<int> Get(absl::FunctionRef<absl::StatusOr<int>()> build,
                          const FindOptions& options = {}) {
    return FindOrBuild<std::string, int>(&cache_, "k", kDevice, build, options);
  }
  // Returns once `count` callers wait for the build of "k".
  void AwaitJoined(uint64_t count) {
    while (cache_.statistics().joined < count) std::this_thread::yield();
  }

  std::atomic<int> destroyed_{0};
  Cache cache_{{.name = "kernels"}, [this](const std::string&, int) {
                 ++destroyed_;
                 return absl::OkStatus();
               }};
};

TEST_F(FindOrBuildTest, BuildsOnceThenFinds) {
  int builds = 0;
  const auto build = [&]() -> absl::StatusOr<int> { return ++builds; };
  EXPECT_EQ(*Get(build), 1);
  EXPECT_EQ(*Get(build), 1);
  EXPECT_EQ(builds, 1);
}

TEST_F(FindOrBuildTest, FailuresAreReturnedAndNotCached) {
  const auto failed = Get([]() -> absl::StatusOr<int> { return absl::NotFoundError("entry"); });
  EXPECT_EQ(failed.status(), absl::NotFoundError("entry"));
  const auto thrown = Get([]() -> absl::StatusOr<int> { throw std::runtime_error("boom"); });
  EXPECT_EQ(ReasonOf(thrown.status()), v1::INTERNAL);
  EXPECT_THAT(std::string(thrown.status().message()), HasSubstr("boom"));
  EXPECT_EQ(*Get([]() -> absl::StatusOr<int> { return 3; }), 3);
}

TEST_F(FindOrBuildTest, G4ManyAskersOneBuild) {
  constexpr int kAskers = 16;
  std::atomic<int> builds{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kAskers; ++i) {
    threads.emplace_back([&] {
      const auto value = Get([&]() -> absl::StatusOr<int> {
        AwaitJoined(kAskers - 1);
        return 100 + ++builds;
      });
      EXPECT_EQ(*value, 101);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(builds, 1);
}

TEST_F(FindOrBuildTest, G4AFailingBuildFailsAllAskersOnceAndIsRetriedByTheNext) {
  constexpr int kAskers = 8;
  std::atomic<int> builds{0};
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kAskers; ++i) {
    threads.emplace_back([&] {
      const auto value = Get([&]() -> absl::StatusOr<int> {
        ++builds;
        AwaitJoined(kAskers - 1);
        return absl::InternalError("compiler");
      });
      if (value.status() == absl::InternalError("compiler")) ++failures;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(builds, 1);
  EXPECT_EQ(failures, kAskers);
  EXPECT_EQ(*Get([]() -> absl::StatusOr<int> { return 1; }), 1);
}

TEST_F(FindOrBuildTest, DifferentKeysBuildInParallel) {
  Gate other_built;
  std::thread other([&] {
    const auto value = FindOrBuild<std::string, int>(&cache_, "other", kDevice,
                                                     []() -> absl::StatusOr<int> { return 2; });
    EXPECT_EQ(*value, 2);
    other_built.Open();
  });
  const auto value = Get([&]() -> absl::StatusOr<int> {
    other_built.Wait();
    return 1;
  });
  EXPECT_EQ(*value, 1);
  other.join();
}

TEST_F(FindOrBuildTest, AWaiterGivesUpAtItsDeadlineAndTheBuildGoesOn) {
  Gate building;
  Gate finish;
  std::thread builder([&] {
    const auto value = Get([&]() -> absl::StatusOr<int> {
      building.Open();
      finish.Wait();
      return 1;
    });
    EXPECT_EQ(*value, 1);
  });
  building.Wait();
  FindOptions options;
  options.deadline = std::chrono::steady_clock::now();  // already over
  const auto value = Get([]() -> absl::StatusOr<int> { return 2; }, options);
  EXPECT_EQ(ReasonOf(value.status()), v1::DEADLINE_EXCEEDED);
  finish.Open();
  builder.join();
  EXPECT_EQ(cache_.Find("k"), 1);
}

TEST_F(FindOrBuildTest, AWaiterWithAFarDeadlineGetsTheValue) {
  Gate building;
  std::thread builder([&] {
    const auto value = Get([&]() -> absl::StatusOr<int> {
      building.Open();
      AwaitJoined(1);
      return 1;
    });
    EXPECT_EQ(*value, 1);
  });
  building.Wait();
  FindOptions options;
  options.deadline = std::chrono::steady_clock::now() + std::chrono::hours(1);
  EXPECT_EQ(*Get([]() -> absl::StatusOr<int> { return 2; }, options), 1);
  builder.join();
}

TEST_F(FindOrBuildTest, G3AClearDuringTheBuildStartsItAgain) {
  int builds = 0;
  const auto value = Get([&]() -> absl::StatusOr<int> {
    if (++builds <= 2) cache_.Clear().IgnoreError();
    return builds;
  });
  EXPECT_EQ(*value, 3);
  EXPECT_EQ(destroyed_, 2);
}

TEST_F(FindOrBuildTest, G3AfterThreeRetriesTheAnswerIsCleared) {
  int builds = 0;
  const auto value = Get([&]() -> absl::StatusOr<int> {
    cache_.Clear().IgnoreError();
    return ++builds;
  });
  EXPECT_EQ(ReasonOf(value.status()), v1::CLEARED);
  EXPECT_EQ(builds, 4);
  EXPECT_EQ(destroyed_, 4);
  EXPECT_EQ(cache_.size(), 0u);
  EXPECT_EQ(*Get([&]() -> absl::StatusOr<int> { return ++builds; }), 5) << "a later build runs";
}

TEST_F(FindOrBuildTest, G3WhoJoinedAClearedBuildTriesAgainToo) {
  Gate building;
  std::thread builder([&] {
    FindOptions once;
    once.clear_retries = 0;
    const auto value = Get(
        [&]() -> absl::StatusOr<int> {
          building.Open();
          AwaitJoined(1);
          cache_.Clear().IgnoreError();
          return 1;
        },
        once);
    EXPECT_EQ(ReasonOf(value.status()), v1::CLEARED);
  });
  building.Wait();
  EXPECT_EQ(*Get([]() -> absl::StatusOr<int> { return 2; }), 2);
  builder.join();
  EXPECT_EQ(destroyed_, 1);
}

TEST_F(FindOrBuildTest, G3ADestroyDuringTheBuildIsFinal) {
  int builds = 0;
  const auto value = Get([&]() -> absl::StatusOr<int> {
    cache_.EvictDevice("CUDA", 0).IgnoreError();
    return ++builds;
  });
  EXPECT_EQ(ReasonOf(value.status()), v1::DEVICE_DESTROYED);
  EXPECT_THAT(std::string(value.status().message()), HasSubstr("CUDA:0"));
  EXPECT_EQ(builds, 1);
  EXPECT_EQ(destroyed_, 1);
  EXPECT_EQ(*Get([&]() -> absl::StatusOr<int> { return ++builds; }), 2);
}

TEST_F(FindOrBuildTest, ABuildThatFailsWithClearedIsNotRetriedHere) {
  int builds = 0;
  const auto value = Get([&]() -> absl::StatusOr<int> {
    ++builds;
    return MakeError(v1::CLEARED, "the cache below gave up");
  });
  EXPECT_EQ(ReasonOf(value.status()), v1::CLEARED);
  EXPECT_EQ(builds, 1);
}

}  // namespace
}  // namespace kcache
