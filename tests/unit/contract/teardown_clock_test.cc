#include "contract/teardown_clock.h"

#include "gtest/gtest.h"

namespace kcache {
namespace {

const DeviceName kCuda0{"CUDA", 0};
const DeviceName kCuda1{"CUDA", 1};
const DeviceName kPtx0{"CUDA/PTX", 0};
const DeviceName kHip0{"HIP", 0};

TEST(TeardownClock, G6ADestroyConcernsItsDeviceAndItsVariants) {
  TeardownClock clock;
  const auto before = clock.Now();
  clock.NoteDestroy("CUDA", 0);
  EXPECT_TRUE(clock.DestroyedSince(kCuda0, before));
  EXPECT_TRUE(clock.DestroyedSince(kPtx0, before));
  EXPECT_FALSE(clock.DestroyedSince(kCuda1, before));
  EXPECT_FALSE(clock.DestroyedSince(kHip0, before));
  EXPECT_FALSE(clock.DestroyedSince(kCuda0, clock.Now())) << "later builds are not concerned";
  EXPECT_FALSE(clock.ClearedSince(kCuda0, before)) << "a destroy is no clear";
}

TEST(TeardownClock, AClearConcernsItsScope) {
  TeardownClock clock;
  const auto before = clock.Now();
  clock.NoteClear("CUDA", 0);
  EXPECT_TRUE(clock.ClearedSince(kPtx0, before));
  EXPECT_FALSE(clock.ClearedSince(kCuda1, before));
  EXPECT_FALSE(clock.ClearedSince(std::nullopt, before));
  clock.NoteClear("CUDA", std::nullopt);
  EXPECT_TRUE(clock.ClearedSince(kCuda1, before));
  EXPECT_FALSE(clock.ClearedSince(kHip0, before));
  clock.NoteClear("", std::nullopt);
  EXPECT_TRUE(clock.ClearedSince(kHip0, before));
  EXPECT_TRUE(clock.ClearedSince(std::nullopt, before));
  EXPECT_FALSE(clock.DestroyedSince(kCuda0, before)) << "a clear is no destroy";
}

TEST(TeardownClock, MomentsOnlyGrow) {
  TeardownClock clock;
  auto last = clock.Now();
  for (uint32_t i = 0; i < 50; ++i) {
    if (i % 2 == 0) {
      clock.NoteDestroy("CUDA", i % 3);
    } else {
      clock.NoteClear("", std::nullopt);
    }
    EXPECT_GT(clock.Now(), last);
    last = clock.Now();
  }
}

}  // namespace
}  // namespace kcache
