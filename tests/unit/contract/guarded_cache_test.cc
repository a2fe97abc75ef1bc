// The cache's rules on one thread: every interleaving is written out with Begin and Complete. With
// threads: guarded_cache_stress_test.cc.

#include "contract/guarded_cache.h"

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "contract/error_reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

using Cache = GuardedCache<std::string, int>;

const DeviceName kCuda0{"CUDA", 0};
const DeviceName kCuda1{"CUDA", 1};
const DeviceName kPtx0{"CUDA/PTX", 0};
const DeviceName kHip0{"HIP", 0};

class GuardedCacheTest : public ::testing::Test {
 protected:
  std::unique_ptr<Cache> MakeCache(bool invalidated_by_clear = true) {
    return std::make_unique<Cache>(
        GuardedCacheOptions{.name = "kernels", .invalidated_by_clear = invalidated_by_clear},
        [this](const std::string& key, int value) {
          destroyed_.push_back(value);
          destroyed_keys_.push_back(key);
          if (on_destroy_ != nullptr) on_destroy_();
          return destroy_result_;
        });
  }

  // Begins and expects to be the builder.
  Cache::Ticket Ticket(Cache* cache, const std::string& key,
                       const std::optional<DeviceName>& device = kCuda0) {
    Cache::Answer answer = cache->Begin(key, device, nullptr);
    EXPECT_TRUE(std::holds_alternative<Cache::Build>(answer));
    return std::move(std::get<Cache::Build>(answer).ticket);
  }
  void Install(Cache* cache, const std::string& key, int value,
               const std::optional<DeviceName>& device = kCuda0) {
    EXPECT_EQ(cache->Complete(Ticket(cache, key, device), value).outcome, BuildOutcome::kInstalled);
  }
  // Begins and expects to wait; the outcome goes to outcomes_.
  Cache::WaiterId Wait(Cache* cache, const std::string& key,
                       const std::optional<DeviceName>& device = kCuda0) {
    Cache::Answer answer = cache->Begin(
        key, device, [this](const absl::StatusOr<int>& value) { outcomes_.push_back(value); });
    EXPECT_TRUE(std::holds_alternative<Cache::Waiting>(answer));
    return std::get<Cache::Waiting>(answer).id;
  }
  static void ExpectBalanced(const Cache& cache) {
    const Cache::Statistics statistics = cache.statistics();
    EXPECT_EQ(statistics.destroyed + statistics.retained, statistics.built);
    EXPECT_EQ(statistics.retained, cache.size());
  }

  std::vector<int> destroyed_;
  std::vector<std::string> destroyed_keys_;
  std::vector<absl::StatusOr<int>> outcomes_;
  absl::Status destroy_result_;
  std::function<void()> on_destroy_;
};

TEST_F(GuardedCacheTest, AMissBuildsAndAHitDoesNot) {
  const auto cache = MakeCache();
  EXPECT_EQ(cache->Find("k"), std::nullopt);
  Install(cache.get(), "k", 7);
  EXPECT_EQ(cache->Find("k"), 7);
  const Cache::Answer answer = cache->Begin("k", kCuda0, nullptr);
  ASSERT_TRUE(std::holds_alternative<Cache::Hit>(answer));
  EXPECT_EQ(std::get<Cache::Hit>(answer).value, 7);
  EXPECT_THAT(destroyed_, IsEmpty());
  ExpectBalanced(*cache);
}

TEST_F(GuardedCacheTest, AFailedBuildCachesNothing) {
  const auto cache = MakeCache();
  cache->Abandon(Ticket(cache.get(), "k"), absl::InternalError("compiler"));
  EXPECT_EQ(cache->size(), 0u);
  Install(cache.get(), "k", 1);
  EXPECT_EQ(cache->statistics().builds_failed, 1u);
  ExpectBalanced(*cache);
}

TEST_F(GuardedCacheTest, ADroppedTicketAbandonsItsBuild) {
  const auto cache = MakeCache();
  {
    const Cache::Ticket dropped = Ticket(cache.get(), "k");
    Wait(cache.get(), "k");
  }
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(ReasonOf(outcomes_[0].status()), v1::CANCELLED);
  Install(cache.get(), "k", 1);
}

TEST_F(GuardedCacheTest, AbandoningWithOkStillFailsTheWaiters) {
  const auto cache = MakeCache();
  Cache::Ticket ticket = Ticket(cache.get(), "k");
  Wait(cache.get(), "k");
  cache->Abandon(std::move(ticket), absl::OkStatus());
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(ReasonOf(outcomes_[0].status()), v1::INTERNAL);
}

TEST_F(GuardedCacheTest, TicketsMove) {
  const auto cache = MakeCache();
  Cache::Ticket first = Ticket(cache.get(), "a");
  Cache::Ticket second = Ticket(cache.get(), "b");
  second = std::move(first);  // drops "b", keeps "a"
  EXPECT_EQ(second.key(), "a");
  EXPECT_EQ(cache->statistics().builds_failed, 1u);
  EXPECT_EQ(cache->Complete(std::move(second), 1).outcome, BuildOutcome::kInstalled);
  EXPECT_EQ(cache->Find("a"), 1);
}

// ---- single flight ------------------------------------------------------------------------------

TEST_F(GuardedCacheTest, G4SecondAskerWaitsForTheFirst) {
  const auto cache = MakeCache();
  Cache::Ticket ticket = Ticket(cache.get(), "k");
  Wait(cache.get(), "k");
  Wait(cache.get(), "k");
  EXPECT_THAT(outcomes_, IsEmpty());
  cache->Complete(std::move(ticket), 5);
  ASSERT_EQ(outcomes_.size(), 2u);
  for (const auto& outcome : outcomes_) EXPECT_EQ(*outcome, 5);
  const Cache::Statistics statistics = cache->statistics();
  EXPECT_EQ(statistics.builds_started, 1u);
  EXPECT_EQ(statistics.joined, 2u);
}

TEST_F(GuardedCacheTest, G4AFailureFailsAllOnceAndTheNextAskerRetries) {
  const auto cache = MakeCache();
  Cache::Ticket ticket = Ticket(cache.get(), "k");
  Wait(cache.get(), "k");
  Wait(cache.get(), "k");
  cache->Abandon(std::move(ticket), MakeError(v1::COMPILE_FAILED, "line 3"));
  ASSERT_EQ(outcomes_.size(), 2u);
  for (const auto& outcome : outcomes_) EXPECT_EQ(ReasonOf(outcome.status()), v1::COMPILE_FAILED);
  Install(cache.get(), "k", 2);
}

TEST_F(GuardedCacheTest, G4DifferentKeysDoNotWait) {
  const auto cache = MakeCache();
  Cache::Ticket first = Ticket(cache.get(), "a");
  Install(cache.get(), "b", 2);
  EXPECT_EQ(cache->Complete(std::move(first), 1).outcome, BuildOutcome::kInstalled);
}

TEST_F(GuardedCacheTest, AWaiterGivesUpWithoutDisturbingTheBuild) {
  const auto cache = MakeCache();
  Cache::Ticket ticket = Ticket(cache.get(), "k");
  const Cache::WaiterId leaver = Wait(cache.get(), "k");
  Wait(cache.get(), "k");
  EXPECT_TRUE(cache->CancelWait("k", leaver));
  EXPECT_FALSE(cache->CancelWait("k", leaver));
  EXPECT_FALSE(cache->CancelWait("other", leaver));
  cache->Complete(std::move(ticket), 5);
  EXPECT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(cache->Find("k"), 5);
}

TEST_F(GuardedCacheTest, WaitersRunUnlocked) {
  const auto cache = MakeCache();
  Cache::Ticket ticket = Ticket(cache.get(), "k");
  std::optional<int> seen;
  const Cache::Answer answer =
      cache->Begin("k", kCuda0, [&](const absl::StatusOr<int>&) { seen = cache->Find("k"); });
  ASSERT_TRUE(std::holds_alternative<Cache::Waiting>(answer));
  cache->Complete(std::move(ticket), 9);
  EXPECT_EQ(seen, 9);
}

// ---- destroy ------------------------------------------------------------------------------------

TEST_F(GuardedCacheTest, G6EvictDeviceTakesItsDeviceAndVariantsOnly) {
  const auto cache = MakeCache();
  Install(cache.get(), "cuda0", 1, kCuda0);
  Install(cache.get(), "ptx0", 2, kPtx0);
  Install(cache.get(), "cuda1", 3, kCuda1);
  Install(cache.get(), "hip0", 4, kHip0);
  Install(cache.get(), "none", 5, std::nullopt);
  EXPECT_TRUE(cache->EvictDevice("CUDA", 0).ok());
  EXPECT_THAT(destroyed_, UnorderedElementsAre(1, 2));
  EXPECT_EQ(cache->size(), 3u);
  ExpectBalanced(*cache);
}

TEST_F(GuardedCacheTest, G3EvictDuringABuildRejectsItAndNamesTheDevice) {
  const auto cache = MakeCache();
  Cache::Ticket ticket = Ticket(cache.get(), "k", kPtx0);
  Wait(cache.get(), "k", kPtx0);
  // Also a device without entries gets a new epoch.
  EXPECT_TRUE(cache->EvictDevice("CUDA", 0).ok());
  const Cache::Completion completion = cache->Complete(std::move(ticket), 1);
  EXPECT_EQ(completion.outcome, BuildOutcome::kDeviceDestroyed);
  EXPECT_EQ(ReasonOf(completion.value.status()), v1::DEVICE_DESTROYED);
  EXPECT_THAT(std::string(completion.value.status().message()), HasSubstr("CUDA/PTX:0"));
  EXPECT_FALSE(cache->IsRetryable(completion.value.status()));
  EXPECT_THAT(destroyed_, ElementsAre(1));
  EXPECT_EQ(cache->size(), 0u);
  ASSERT_EQ(outcomes_.size(), 1u);
  EXPECT_EQ(ReasonOf(outcomes_[0].status()), v1::DEVICE_DESTROYED);
  Install(cache.get(), "k", 2, kPtx0);
  EXPECT_THAT(destroyed_, ElementsAre(1)) << "destroyed once";
  ExpectBalanced(*cache);
}

TEST_F(GuardedCacheTest, G6AnotherDevicesDestroyDoesNotDisturbABuild) {
  const auto cache = MakeCache();
  Cache::Ticket ticket = Ticket(cache.get(), "k", kCuda0);
  EXPECT_TRUE(cache->EvictDevice("CUDA", 1).ok());
  EXPECT_TRUE(cache->EvictDevice("HIP", 0).ok());
  EXPECT_EQ(cache->Complete(std::move(ticket), 1).outcome, BuildOutcome::kInstalled);
}

TEST_F(GuardedCacheTest, ADestroyAlsoRejectsOwningBuilds) {
  const auto cache = MakeCache(/*invalidated_by_clear=*/false);
  Cache::Ticket ticket = Ticket(cache.get(), "k");
  EXPECT_TRUE(cache->EvictDevice("CUDA", 0).ok());
  EXPECT_EQ(cache->Complete(std::move(ticket), 1).outcome, BuildOutcome::kDeviceDestroyed);
}

TEST_F(GuardedCacheTest, ADestroyBeforeTheBuildDoesNotMatter) {
  const auto cache = MakeCache();
  EXPECT_TRUE(cache->EvictDevice("CUDA", 0).ok());
  Install(cache.get(), "k", 1);
}

// Whoever asks after a destroy does not wait for a build that is bound to fail.
TEST_F(GuardedCacheTest, AStaleBuildIsNotJoined) {
  const auto cache = MakeCache();
  Cache::Ticket stale = Ticket(cache.get(), "k");
  Wait(cache.get(), "k");
  EXPECT_TRUE(cache->EvictDevice("CUDA", 0).ok());
  Cache::Ticket fresh = Ticket(cache.get(), "k");
  EXPECT_EQ(cache->Complete(std::move(stale), 1).outcome, BuildOutcome::kDeviceDestroyed);
  ASSERT_EQ(outcomes_.size(), 1u) << "who joined before the destroy shares the stale build's end";
  EXPECT_EQ(ReasonOf(outcomes_[0].status()), v1::DEVICE_DESTROYED);
  Wait(cache.get(), "k");  // the fresh one is still there to be joined
  EXPECT_EQ(cache->Complete(std::move(fresh), 2).outcome, BuildOutcome::kInstalled);
  EXPECT_EQ(*outcomes_[1], 2);
  ExpectBalanced(*cache);
}

// ---- clear --------------------------------------------------------------------------------------

TEST_F(GuardedCacheTest, ClearDestroysEverything) {
  const auto cache = MakeCache();
  Install(cache.get(), "a", 1, kCuda0);
  Install(cache.get(), "b", 2, kHip0);
  Install(cache.get(), "c", 3, std::nullopt);
  EXPECT_TRUE(cache->Clear().ok());
  EXPECT_THAT(destroyed_, UnorderedElementsAre(1, 2, 3));
  EXPECT_EQ(cache->size(), 0u);
  EXPECT_TRUE(cache->Clear().ok());
  EXPECT_EQ(destroyed_.size(), 3u);
  ExpectBalanced(*cache);
}

TEST_F(GuardedCacheTest, ClearOfAFamilyOrADevice) {
  const auto cache = MakeCache();
  Install(cache.get(), "a", 1, kPtx0);
  Install(cache.get(), "b", 2, kCuda1);
  Install(cache.get(), "c", 3, kHip0);
  EXPECT_TRUE(cache->Clear("CUDA", 0).ok());
  EXPECT_THAT(destroyed_, ElementsAre(1));
  EXPECT_TRUE(cache->Clear("CUDA").ok());
  EXPECT_THAT(destroyed_, ElementsAre(1, 2));
  EXPECT_EQ(cache->Find("c"), 3);
}

TEST_F(GuardedCacheTest, G3ClearDuringABorrowingBuildRejectsIt) {
  const auto cache = MakeCache();
  Cache::Ticket ticket = Ticket(cache.get(), "k");
  EXPECT_TRUE(cache->Clear().ok());
  const Cache::Completion completion = cache->Complete(std::move(ticket), 1);
  EXPECT_EQ(completion.outcome, BuildOutcome::kCleared);
  EXPECT_EQ(ReasonOf(completion.value.status()), v1::CLEARED);
  EXPECT_TRUE(cache->IsRetryable(completion.value.status()));
  EXPECT_THAT(destroyed_, ElementsAre(1));
  EXPECT_EQ(cache->size(), 0u);
  Install(cache.get(), "k", 2);
  ExpectBalanced(*cache);
}

TEST_F(GuardedCacheTest, AClearElsewhereDoesNotDisturbABuild) {
  const auto cache = MakeCache();
  Cache::Ticket ticket = Ticket(cache.get(), "k", kCuda0);
  EXPECT_TRUE(cache->Clear("HIP").ok());
  EXPECT_TRUE(cache->Clear("CUDA", 1).ok());
  EXPECT_EQ(cache->Complete(std::move(ticket), 1).outcome, BuildOutcome::kInstalled);
}

TEST_F(GuardedCacheTest, AnOwningBuildSurvivesAClear) {
  const auto cache = MakeCache(/*invalidated_by_clear=*/false);
  Cache::Ticket ticket = Ticket(cache.get(), "k");
  EXPECT_TRUE(cache->Clear().ok());
  Wait(cache.get(), "k");  // and can be joined afterwards
  EXPECT_EQ(cache->Complete(std::move(ticket), 1).outcome, BuildOutcome::kInstalled);
  EXPECT_EQ(*outcomes_.at(0), 1);
}

TEST_F(GuardedCacheTest, ADestroyWinsOverAClear) {
  const auto cache = MakeCache();
  Cache::Ticket ticket = Ticket(cache.get(), "k");
  EXPECT_TRUE(cache->Clear().ok());
  EXPECT_TRUE(cache->EvictDevice("CUDA", 0).ok());
  EXPECT_EQ(cache->Complete(std::move(ticket), 1).outcome, BuildOutcome::kDeviceDestroyed);
}

TEST_F(GuardedCacheTest, OnlyThisCachesOwnClearsAreRetryable) {
  const auto cache = MakeCache();
  EXPECT_FALSE(cache->IsRetryable(absl::OkStatus()));
  EXPECT_FALSE(cache->IsRetryable(MakeError(v1::CLEARED, "a cache below has given up")));
  EXPECT_FALSE(cache->IsRetryable(absl::AbortedError("x")));
}

// ---- lost races and failing destroys ------------------------------------------------------------

TEST_F(GuardedCacheTest, TheLoserOfARaceGetsTheWinner) {
  const auto cache = MakeCache();
  Cache::Ticket slow = Ticket(cache.get(), "k");
  Wait(cache.get(), "k");
  EXPECT_TRUE(cache->Clear().ok());
  Install(cache.get(), "k", 2);  // a fresh build overtakes the stale one
  const Cache::Completion completion = cache->Complete(std::move(slow), 1);
  EXPECT_EQ(completion.outcome, BuildOutcome::kLostRace);
  EXPECT_EQ(*completion.value, 2);
  EXPECT_EQ(*outcomes_.at(0), 2) << "its waiters get the winner too";
  EXPECT_THAT(destroyed_, ElementsAre(1));
  EXPECT_EQ(cache->Find("k"), 2);
  ExpectBalanced(*cache);
}

TEST_F(GuardedCacheTest, AFailingDestroyOnALostRaceStillReturnsTheWinner) {
  const auto cache = MakeCache();
  Cache::Ticket slow = Ticket(cache.get(), "k");
  EXPECT_TRUE(cache->Clear().ok());
  Install(cache.get(), "k", 2);
  on_destroy_ = [] { throw std::runtime_error("driver"); };
  const Cache::Completion completion = cache->Complete(std::move(slow), 1);
  EXPECT_EQ(completion.outcome, BuildOutcome::kLostRace);
  EXPECT_EQ(*completion.value, 2);
  EXPECT_THAT(std::string(completion.destroyed.message()), HasSubstr("driver"));
  on_destroy_ = nullptr;
}

TEST_F(GuardedCacheTest, AFailingDestroyDoesNotMaskTheOutcome) {
  const auto cache = MakeCache();
  destroy_result_ = absl::InternalError("driver");
  Cache::Ticket destroyed = Ticket(cache.get(), "a");
  EXPECT_TRUE(cache->EvictDevice("CUDA", 0).ok());
  const Cache::Completion completion = cache->Complete(std::move(destroyed), 1);
  EXPECT_EQ(ReasonOf(completion.value.status()), v1::DEVICE_DESTROYED);
  EXPECT_EQ(completion.destroyed, absl::InternalError("driver"));
}

TEST_F(GuardedCacheTest, G5EveryDestroyIsAttemptedAndTheFirstFailureReported) {
  const auto cache = MakeCache();
  for (int i = 0; i < 5; ++i) Install(cache.get(), std::to_string(i), i);
  on_destroy_ = [] { throw std::runtime_error("driver"); };
  const absl::Status status = cache->Clear();
  EXPECT_THAT(std::string(status.message()), HasSubstr("driver"));
  EXPECT_EQ(destroyed_.size(), 5u);
  EXPECT_EQ(cache->size(), 0u);
  EXPECT_EQ(cache->statistics().destroy_failures, 5u);
  ExpectBalanced(*cache);
  on_destroy_ = nullptr;

  destroy_result_ = absl::InternalError("status");
  Install(cache.get(), "a", 10);
  Install(cache.get(), "b", 11);
  EXPECT_EQ(cache->EvictDevice("CUDA", 0), absl::InternalError("status"));
  EXPECT_EQ(destroyed_.size(), 7u);
}

TEST_F(GuardedCacheTest, DestroyRunsUnlockedAndAfterUnlinking) {
  const auto cache = MakeCache();
  Install(cache.get(), "k", 1);
  size_t size_seen = 99;
  on_destroy_ = [&] { size_seen = cache->size(); };
  EXPECT_TRUE(cache->Erase("k").ok());
  EXPECT_EQ(size_seen, 0u);
  on_destroy_ = nullptr;
}

TEST_F(GuardedCacheTest, EraseDestroysOneValue) {
  const auto cache = MakeCache();
  Install(cache.get(), "a", 1);
  Install(cache.get(), "b", 2);
  EXPECT_TRUE(cache->Erase("a").ok());
  EXPECT_TRUE(cache->Erase("a").ok());
  EXPECT_THAT(destroyed_, ElementsAre(1));
  EXPECT_THAT(destroyed_keys_, ElementsAre("a"));
  EXPECT_EQ(cache->Find("b"), 2);
  ExpectBalanced(*cache);
}

TEST_F(GuardedCacheTest, TheDestructorDestroysWhatIsLeft) {
  auto cache = MakeCache();
  Install(cache.get(), "a", 1);
  Install(cache.get(), "b", 2);
  cache.reset();
  EXPECT_THAT(destroyed_, UnorderedElementsAre(1, 2));
}

TEST_F(GuardedCacheTest, ValuesMayOnlyMoveIntoTheCacheByTheirTicket) {
  // A second completion of the same key without a ticket is impossible; with a second ticket it is
  // a lost race, never a replaced value.
  const auto cache = MakeCache();
  Cache::Ticket first = Ticket(cache.get(), "k");
  EXPECT_TRUE(cache->Clear().ok());
  Cache::Ticket second = Ticket(cache.get(), "k");
  EXPECT_TRUE(cache->Clear().ok());
  Cache::Ticket third = Ticket(cache.get(), "k");
  EXPECT_EQ(cache->Complete(std::move(third), 3).outcome, BuildOutcome::kInstalled);
  EXPECT_EQ(cache->Complete(std::move(first), 1).outcome, BuildOutcome::kLostRace);
  EXPECT_EQ(cache->Complete(std::move(second), 2).outcome, BuildOutcome::kLostRace);
  EXPECT_EQ(cache->Find("k"), 3);
  EXPECT_THAT(destroyed_, ElementsAre(1, 2));
}

}  // namespace
}  // namespace kcache
