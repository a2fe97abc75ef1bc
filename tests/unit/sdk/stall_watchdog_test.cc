#include "backends/sdk/stall_watchdog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>

#include "contract/error_reason.h"

namespace kcache::backend {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

// A watchdog whose own thread has nothing to say: only Look is asked.
class StallWatchdogTest : public testing::Test {
 protected:
  // Looks `after` the beginning.
  absl::Status Look(milliseconds after) { return watchdog_.Look(start_ + after); }

  std::vector<StallWatchdog::QueueProgress> queues_;
  const Clock::time_point start_ = Clock::now();
  // So long that its own thread does not look in this test's life.
  StallWatchdog watchdog_{hours(1), [this] { return queues_; }, [](const absl::Status&) {}};
};

TEST_F(StallWatchdogTest, NothingForTheLimitIsAStall) {
  queues_ = {{.session = 7, .queue = 2, .busy = true, .completed = 5}};
  EXPECT_TRUE(Look(seconds(0)).ok());
  EXPECT_TRUE(Look(hours(1) - seconds(1)).ok());
  const absl::Status stalled = Look(hours(1));
  EXPECT_EQ(ReasonOf(stalled), v1::DEVICE_LOST);
  EXPECT_THAT(std::string(stalled.message()), testing::HasSubstr("queue 2 of session 7"));
}

TEST_F(StallWatchdogTest, AnyProgressStartsAnew) {
  for (uint64_t i = 0; i < 5; ++i) {
    queues_ = {{.session = 7, .queue = 2, .busy = true, .completed = i}};
    EXPECT_TRUE(Look(i * (hours(1) - seconds(1))).ok());
  }
}

TEST_F(StallWatchdogTest, IdleQueuesDoNotStall) {
  queues_ = {{.session = 7, .queue = 2, .busy = false, .completed = 5}};
  EXPECT_TRUE(Look(seconds(0)).ok());
  EXPECT_TRUE(Look(hours(9)).ok());
  // Busy again much later: that is when its time begins.
  queues_[0].busy = true;
  EXPECT_TRUE(Look(hours(10)).ok());
  EXPECT_TRUE(Look(hours(11) - seconds(1)).ok());
  EXPECT_FALSE(Look(hours(11)).ok());
}

TEST_F(StallWatchdogTest, OneQueuesProgressIsNotAnothers) {
  queues_ = {{.session = 7, .queue = 0, .busy = true, .completed = 1},
             {.session = 7, .queue = 1, .busy = true, .completed = 1}};
  EXPECT_TRUE(Look(seconds(0)).ok());
  queues_[0].completed = 2;
  EXPECT_FALSE(Look(hours(1)).ok());
}

TEST(StallWatchdogThread, TellsOnce) {
  std::mutex mutex;
  std::condition_variable told;
  int times = 0;
  {
    StallWatchdog watchdog(
        milliseconds(4),
        [] {
          return std::vector<StallWatchdog::QueueProgress>{
              {.session = 1, .queue = 0, .busy = true, .completed = 0}};
        },
        [&](const absl::Status& why) {
          EXPECT_EQ(ReasonOf(why), v1::DEVICE_LOST);
          const std::lock_guard<std::mutex> lock(mutex);
          ++times;
          told.notify_all();
        });
    std::unique_lock<std::mutex> lock(mutex);
    told.wait(lock, [&] { return times > 0; });
  }
  EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace kcache::backend
