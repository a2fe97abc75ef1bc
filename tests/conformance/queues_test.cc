// Several queues: order inside each, none between them.

#include <future>
#include <thread>

#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

class Queues : public OnDevice {};

TEST_F(Queues, OrderInsideAQueue) {
  const Kernel increment = Acquire(Role::kIncrement);
  ASSERT_FALSE(increment.empty());
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 0));
  Buffer copy = Allocate(256);
  const uint32_t ten = 10;
  // Each step needs the one before: any reordering shows.
  for (uint32_t round = 0; round < 100; ++round) {
    KCACHE_ASSERT_OK(data.Fill(queue(), 0, 256, std::as_bytes(std::span(&ten, 1))));
    KCACHE_ASSERT_OK(increment.Launch(queue(), Linear(1), data));
    KCACHE_ASSERT_OK(copy.CopyFrom(queue(), 0, data, 0, 256));
    KCACHE_ASSERT_OK(increment.Launch(queue(), Linear(1), data));
    KCACHE_ASSERT_OK(increment.Launch(queue(), Linear(1), copy));
  }
  EXPECT_THAT(Contents<uint32_t>(data, 64), ::testing::Each(12u));
  EXPECT_THAT(Contents<uint32_t>(copy, 64), ::testing::Each(12u));
}

TEST_F(Queues, ManySideBySide) {
  constexpr uint32_t kQueues = 8, kLaunches = 100;
  const Kernel increment = Acquire(Role::kIncrement);
  ASSERT_FALSE(increment.empty());
  std::vector<Buffer> data;
  for (uint32_t i = 0; i < kQueues; ++i) {
    data.push_back(AllocateWith(std::vector<uint32_t>(64, i)));
  }
  KCACHE_ASSERT_OK(queue(0).Synchronize());
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < kQueues; ++i) {
    threads.emplace_back([&, i] {
      const Queue mine = queue(i);
      for (uint32_t n = 0; n < kLaunches; ++n) {
        KCACHE_EXPECT_OK(increment.Launch(mine, Linear(1), data[i]));
      }
      KCACHE_EXPECT_OK(mine.Synchronize());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (uint32_t i = 0; i < kQueues; ++i) {
    EXPECT_THAT(Contents<uint32_t>(data[i], 64), ::testing::Each(i + kLaunches));
  }
}

TEST_F(Queues, SynchronizeOfTheDeviceCoversAll) {
  const Kernel increment = Acquire(Role::kIncrement);
  ASSERT_FALSE(increment.empty());
  Buffer a = AllocateWith(std::vector<uint32_t>(64, 0));
  Buffer b = AllocateWith(std::vector<uint32_t>(64, 0));
  KCACHE_ASSERT_OK(queue(0).Synchronize());
  for (int i = 0; i < 50; ++i) {
    KCACHE_ASSERT_OK(increment.Launch(queue(1), Linear(1), a));
    KCACHE_ASSERT_OK(increment.Launch(queue(2), Linear(1), b));
  }
  KCACHE_ASSERT_OK(client().Synchronize(device()));
  // A third queue sees what both have done.
  std::vector<uint32_t> seen(64);
  KCACHE_ASSERT_OK(a.Read(queue(3), &seen));
  EXPECT_THAT(seen, ::testing::Each(50u));
  KCACHE_ASSERT_OK(b.Read(queue(3), &seen));
  EXPECT_THAT(seen, ::testing::Each(50u));
}

// A kernel that waits for another queue's kernel: only if the two queues run beside each other does
// it see the flag. Its patience is counted in iterations, not in time.
TEST_F(Queues, OneQueueDoesNotHoldUpAnother) {
  const Kernel await = Acquire(Role::kAwaitFlag), set = Acquire(Role::kSetFlag);
  ASSERT_FALSE(await.empty() || set.empty());
  Buffer flag = AllocateWith(std::vector<uint32_t>(16, 0));
  Buffer out = AllocateWith(std::vector<uint32_t>(16, 0));
  KCACHE_ASSERT_OK(queue(0).Synchronize());
  const uint32_t patience = 2000000000;
  KCACHE_ASSERT_OK(await.Launch(queue(1), Single(), flag, out, patience));
  KCACHE_ASSERT_OK(queue(1).Flush());
  KCACHE_ASSERT_OK(set.Launch(queue(2), Single(), flag));
  KCACHE_ASSERT_OK(queue(2).Synchronize());
  KCACHE_ASSERT_OK(queue(1).Synchronize());
  EXPECT_EQ(Contents<uint32_t>(out, 1)[0], 1u);
}

TEST_F(Queues, ErrorsBelongToTheirQueue) {
  const Kernel increment = Acquire(Role::kIncrement);
  ASSERT_FALSE(increment.empty());
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 0));
  KCACHE_ASSERT_OK(queue(0).Synchronize());
  LaunchConfig wrong =
      LaunchConfig::Grid({1}, {Suite::Get().devices()[0].limits.max_local_size + 1});
  const absl::Status at_once = increment.Launch(queue(1), wrong, data);
  KCACHE_ASSERT_OK(increment.Launch(queue(2), Linear(1), data));
  KCACHE_EXPECT_OK(queue(2).Synchronize());
  const absl::Status failure = at_once.ok() ? queue(1).Synchronize() : at_once;
  EXPECT_EQ(FailureReason(failure), Reason::kInvalidLaunch) << failure;
  // Told once.
  KCACHE_EXPECT_OK(queue(1).Synchronize());
}

TEST_F(Queues, NumbersBeyondTheLimitAreRefused) {
  auto far = client().GetQueue(device(), 1000000);
  absl::Status failure = far.status();
  if (far.ok()) {
    const Kernel increment = Acquire(Role::kIncrement);
    Buffer data = AllocateWith(std::vector<uint32_t>(64, 0));
    failure = increment.Launch(*far, Linear(1), data);
    if (failure.ok()) failure = far->Synchronize();
  }
  EXPECT_EQ(FailureReason(failure), Reason::kUnknownQueue) << failure;
}

}  // namespace
}  // namespace kcache::conformance
