// A hub and a cache together: the whole of what the layers above a cache rely on.

#include "contract/cache_listeners.h"

#include <optional>
#include <string>
#include <utility>

#include "contract/error_reason.h"
#include "contract/find_or_build.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using Memo = GuardedCache<std::string, int>;

class CacheListenersTest : public ::testing::Test {
 protected:
  void Install(const std::string& key, int value, const DeviceName& device) {
    const auto built = FindOrBuild<std::string, int>(
        &memo_, key, device, [&]() -> absl::StatusOr<int> { return value; });
    EXPECT_EQ(*built, value);
  }
  static absl::Status Ok() { return absl::OkStatus(); }

  InvalidationHub hub_;
  Memo memo_{{.name = "memo"}, [](const std::string&, int) { return absl::OkStatus(); }};
  CacheListeners listeners_ = ListenFor(&memo_, &hub_);
};

TEST_F(CacheListenersTest, AClearDropsTheOuterMemoBeforeHandlesGo) {
  Install("k", 1, {"CUDA", 0});
  EXPECT_TRUE(hub_.AroundClear(OperationScope::New(),
                               [&] {
                                 EXPECT_EQ(memo_.Find("k"), std::nullopt);
                                 return absl::OkStatus();
                               })
                  .ok());
}

TEST_F(CacheListenersTest, AForeignFamilysDestroyLeavesTheEntryItsOwnEvictsIt) {
  Install("k", 1, {"OpenCL", 0});
  EXPECT_TRUE(hub_.AroundDestroy(
                      OperationScope::New(), "CUDA", 0, [] {}, Ok)
                  .ok());
  EXPECT_TRUE(hub_.AroundDestroy(
                      OperationScope::New(), "OpenCL", 1, [] {}, Ok)
                  .ok());
  EXPECT_EQ(memo_.Find("k"), 1);
  EXPECT_TRUE(hub_.AroundDestroy(
                      OperationScope::New(), "OpenCL", 0, [] {}, Ok)
                  .ok());
  EXPECT_EQ(memo_.Find("k"), std::nullopt);
}

// The reason for the second notification: a build that begins between the first one and the release
// closes over a handle that is about to go.
TEST_F(CacheListenersTest, G3ABuildThatBeginsBetweenNotificationAndReleaseIsNotInstalled) {
  const DeviceName device{"CUDA", 0};
  std::optional<Memo::Ticket> cleared;
  EXPECT_TRUE(hub_.AroundClear(OperationScope::New(),
                               [&] {
                                 Memo::Answer answer = memo_.Begin("k", device, nullptr);
                                 cleared = std::move(std::get<Memo::Build>(answer).ticket);
                                 return absl::OkStatus();
                               })
                  .ok());
  EXPECT_EQ(memo_.Complete(*std::move(cleared), 1).outcome, BuildOutcome::kCleared);

  std::optional<Memo::Ticket> destroyed;
  EXPECT_TRUE(hub_.AroundDestroy(
                      OperationScope::New(), "CUDA", 0, [] {},
                      [&] {
                        Memo::Answer answer = memo_.Begin("k", device, nullptr);
                        destroyed = std::move(std::get<Memo::Build>(answer).ticket);
                        return absl::OkStatus();
                      })
                  .ok());
  EXPECT_EQ(memo_.Complete(*std::move(destroyed), 2).outcome, BuildOutcome::kDeviceDestroyed);
  EXPECT_EQ(memo_.size(), 0u);
}

// And what was installed entirely between the two is dropped by the second.
TEST_F(CacheListenersTest, G3WhatWasInstalledBetweenTheNotificationsIsDropped) {
  EXPECT_TRUE(hub_.AroundDestroy(
                      OperationScope::New(), "CUDA", 0, [] {},
                      [&] {
                        Install("k", 1, {"CUDA/PTX", 0});
                        return absl::OkStatus();
                      })
                  .ok());
  EXPECT_EQ(memo_.Find("k"), std::nullopt);
}

TEST_F(CacheListenersTest, AScopedClearDropsItsScope) {
  Install("a", 1, {"CUDA", 0});
  Install("b", 2, {"HIP", 0});
  EXPECT_TRUE(hub_.AroundClear(OperationScope::New(), {"CUDA", std::nullopt}, Ok).ok());
  EXPECT_EQ(memo_.Find("a"), std::nullopt);
  EXPECT_EQ(memo_.Find("b"), 2);
}

TEST_F(CacheListenersTest, AResetDropsEverythingBecauseIdsMayMove) {
  Install("a", 1, {"CUDA", 0});
  EXPECT_TRUE(hub_.AroundReset(OperationScope::New(), Ok).ok());
  EXPECT_EQ(memo_.size(), 0u);
}

TEST_F(CacheListenersTest, ARecordThatCoversAFamilyDropsThatFamily) {
  Install("a", 1, {"CUDA", 0});
  Install("b", 2, {"HIP", 0});
  v1::Invalidate event;
  event.set_kind(v1::INVALIDATE_COVER);
  event.set_phase(v1::PHASE_BEFORE);
  event.set_family("CUDA");
  EXPECT_TRUE(hub_.Notify(event).ok());
  EXPECT_EQ(memo_.Find("a"), std::nullopt);
  EXPECT_EQ(memo_.Find("b"), 2);
}

TEST_F(CacheListenersTest, AfterTheListenersAreGoneNothingIsDropped) {
  listeners_ = {};
  Install("a", 1, {"CUDA", 0});
  EXPECT_TRUE(hub_.AroundClear(OperationScope::New(), Ok).ok());
  EXPECT_EQ(memo_.Find("a"), 1);
}

}  // namespace
}  // namespace kcache
