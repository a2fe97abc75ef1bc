// The hub's rules between threads. Threads are placed with gates, never with sleeps.

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "contract/invalidation_hub.h"
#include "gate.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using ::kcache::testing::Gate;
using ::testing::ElementsAre;

class Log {
 public:
  void Add(std::string line) {
    MutexLock lock(&mutex_);
    lines_.push_back(std::move(line));
  }
  std::vector<std::string> lines() {
    MutexLock lock(&mutex_);
    return lines_;
  }

 private:
  Mutex mutex_;
  std::vector<std::string> lines_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Ok() { return absl::OkStatus(); }

// Two operations at the same moment, each inside its clear: both notify, on both sides.
TEST(InvalidationHubThreads, ConcurrentClearsOfTwoOperationsBothNotify) {
  InvalidationHub hub;
  std::atomic<int> before{0};
  std::atomic<int> after{0};
  const auto listener = hub.OnClearAll([&](const v1::Invalidate& event) {
    ++(event.phase() == v1::PHASE_BEFORE ? before : after);
    return absl::OkStatus();
  });
  Gate first_inside;
  Gate second_inside;
  std::thread first([&] {
    EXPECT_TRUE(hub.AroundClear(OperationScope::New(),
                                [&] {
                                  first_inside.Open();
                                  second_inside.Wait();
                                  return absl::OkStatus();
                                })
                    .ok());
  });
  std::thread second([&] {
    EXPECT_TRUE(hub.AroundClear(OperationScope::New(),
                                [&] {
                                  second_inside.Open();
                                  first_inside.Wait();
                                  return absl::OkStatus();
                                })
                    .ok());
  });
  first.join();
  second.join();
  EXPECT_EQ(before, 2);
  EXPECT_EQ(after, 2);
}

// One operation on two threads: two notifications in all, and both clears lie between them.
TEST(InvalidationHubThreads, G2OneOperationOnTwoThreadsIsToldOnce) {
  InvalidationHub hub;
  Log log;
  const OperationScope operation = OperationScope::New();
  Gate in_before;
  Gate release_before;
  const auto listener = hub.OnClearAll([&](const v1::Invalidate& event) {
    if (event.phase() == v1::PHASE_BEFORE) {
      in_before.Open();
      release_before.Wait();
    }
    log.Add(event.phase() == v1::PHASE_BEFORE ? "before" : "after");
    return absl::OkStatus();
  });
  Gate nested_inside;
  std::thread outer([&] {
    EXPECT_TRUE(hub.AroundClear(operation,
                                [&] {
                                  nested_inside.Wait();
                                  log.Add("clear");
                                  return absl::OkStatus();
                                })
                    .ok());
  });
  in_before.Wait();
  std::thread nested([&] {
    EXPECT_TRUE(hub.AroundClear(operation, {"CUDA", 0},
                                [&] {
                                  log.Add("clear");
                                  nested_inside.Open();
                                  return absl::OkStatus();
                                })
                    .ok());
  });
  release_before.Open();
  outer.join();
  nested.join();
  EXPECT_THAT(log.lines(), ElementsAre("before", "clear", "clear", "after"));
}

// The outer clear ends first: AFTER still waits for the one that joined it.
TEST(InvalidationHubThreads, G2AfterFollowsTheLastNestedRelease) {
  InvalidationHub hub;
  Log log;
  const OperationScope operation = OperationScope::New();
  const auto listener = hub.OnClearAll([&](const v1::Invalidate& event) {
    log.Add(event.phase() == v1::PHASE_BEFORE ? "before" : "after");
    return absl::OkStatus();
  });
  Gate nested_inside;
  Gate outer_cleared;
  std::thread nested;
  const auto nested_clear = [&] {
    nested_inside.Open();
    outer_cleared.Wait();
    log.Add("nested clear");
    return absl::OkStatus();
  };
  EXPECT_TRUE(hub.AroundClear(operation,
                              [&] {
                                nested = std::thread([&] {
                                  EXPECT_TRUE(hub.AroundClear(operation, nested_clear).ok());
                                });
                                nested_inside.Wait();
                                log.Add("outer clear");
                                outer_cleared.Open();
                                return absl::OkStatus();
                              })
                  .ok());
  nested.join();
  EXPECT_THAT(log.lines(), ElementsAre("before", "outer clear", "nested clear", "after"));
}

TEST(InvalidationHubThreads, UnregisteringWaitsForARunningCallback) {
  InvalidationHub hub;
  Gate entered;
  Gate leave;
  std::atomic<bool> returned{false};
  auto listener = hub.OnClearAll([&](const v1::Invalidate& event) {
    if (event.phase() == v1::PHASE_BEFORE) {
      entered.Open();
      leave.Wait();
      returned = true;
    }
    return absl::OkStatus();
  });
  std::thread clearing([&] { EXPECT_TRUE(hub.AroundClear(OperationScope::New(), Ok).ok()); });
  entered.Wait();
  std::thread unregistering([&] {
    listener.Unregister();
    EXPECT_TRUE(returned) << "Unregister returned while the callback was running";
  });
  leave.Open();
  unregistering.join();
  clearing.join();
}

// From inside the callback it does not wait, not even for the same listener on another thread.
TEST(InvalidationHubThreads, UnregisteringFromInsideNeverWaits) {
  InvalidationHub hub;
  InvalidationHub::Registration self;
  Gate other_entered;
  Gate unregistered;
  const OperationScope blocking = OperationScope::New();
  self = hub.OnClearAll([&](const v1::Invalidate& event) {
    if (event.operation_id() == blocking.id()) {
      other_entered.Open();
      unregistered.Wait();
    } else {
      self.Unregister();
      unregistered.Open();
    }
    return absl::OkStatus();
  });
  std::thread blocked([&] { EXPECT_TRUE(hub.AroundClear(blocking, Ok).ok()); });
  other_entered.Wait();
  EXPECT_TRUE(hub.AroundClear(OperationScope::New(), Ok).ok());
  blocked.join();
}

TEST(InvalidationHubThreads, InListenerIsAboutTheCallingThread) {
  InvalidationHub hub;
  Gate entered;
  Gate leave;
  const auto listener = hub.OnClearAll([&](const v1::Invalidate& event) {
    if (event.phase() == v1::PHASE_BEFORE) {
      entered.Open();
      leave.Wait();
    }
    return absl::OkStatus();
  });
  std::thread clearing([&] { EXPECT_TRUE(hub.AroundClear(OperationScope::New(), Ok).ok()); });
  entered.Wait();
  EXPECT_FALSE(hub.InListener());
  leave.Open();
  clearing.join();
}

// Registering, unregistering, clearing and destroying all at once; every listener that is
// registered throughout gets BEFORE and AFTER of every operation.
TEST(InvalidationHubThreads, G2StressEverybodyHearsBothPhasesOfEveryOperation) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 100;
  InvalidationHub hub;
  std::atomic<int> clears{0};
  std::atomic<int> destroys{0};
  const auto on_clear = hub.OnClearAll([&](const v1::Invalidate&) {
    ++clears;
    return absl::OkStatus();
  });
  const auto on_destroy = hub.OnDeviceDestroy(DeviceName{"CUDA", 1}, [&](const v1::Invalidate&) {
    ++destroys;
    return absl::OkStatus();
  });
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        bool alive = true;
        {
          const auto passing = hub.OnClearAll([&alive](const v1::Invalidate&) {
            EXPECT_TRUE(alive);
            return absl::OkStatus();
          });
          const OperationScope operation = OperationScope::New();
          EXPECT_TRUE(
              hub.AroundClear(operation,
                              [&] {
                                return hub.AroundClear(operation, {"HIP", std::nullopt}, Ok);
                              })
                  .ok());
        }
        alive = false;
        EXPECT_TRUE(
            hub.AroundDestroy(
                   OperationScope::New(), "CUDA", static_cast<uint32_t>(round % 2), [] {}, Ok)
                .ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(clears, 2 * kThreads * kRounds);
  EXPECT_EQ(destroys, kThreads * kRounds);
}

}  // namespace
}  // namespace kcache
