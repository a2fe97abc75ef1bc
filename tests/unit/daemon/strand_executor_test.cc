#include "daemon/ops/strand_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "daemon/ops/boot_clock.h"

namespace kcache::ops {
namespace {

class StrandExecutorTest : public testing::Test {
 protected:
  BootClock clock_;
  StrandExecutor executor_{&clock_};
};

TEST_F(StrandExecutorTest, RunsAtOnceOnTheCallersThreadWhenIdle) {
  std::thread::id where;
  bool current = false;
  executor_.Run([&] {
    where = std::this_thread::get_id();
    current = executor_.IsCurrent();
  });
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_TRUE(current);
  EXPECT_FALSE(executor_.IsCurrent());
}

TEST_F(StrandExecutorTest, ATaskRunFromATaskWaitsForIt) {
  std::vector<int> order;
  executor_.Run([&] {
    executor_.Run([&] { order.push_back(2); });
    order.push_back(1);
  });
  EXPECT_THAT(order, testing::ElementsAre(1, 2));
}

TEST_F(StrandExecutorTest, PostNeverRunsInsideTheCall) {
  std::promise<std::thread::id> where;
  executor_.Post([&] { where.set_value(std::this_thread::get_id()); });
  EXPECT_NE(where.get_future().get(), std::this_thread::get_id());
}

TEST_F(StrandExecutorTest, ManyThreadsNeverOverlapAndLoseNothing) {
  constexpr int kThreads = 8;
  constexpr int kTasks = 4000;
  int inside = 0;  // unguarded: the executor is the guard, and TSan the judge
  int overlaps = 0;
  int done = 0;
  std::promise<void> all;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        auto task = [&] {
          overlaps += inside++;
          --inside;
          if (++done == kThreads * kTasks) all.set_value();
        };
        if ((i + t) % 3 == 0) {
          executor_.Post(task);
        } else {
          executor_.Run(task);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  all.get_future().wait();
  executor_.Stop();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(done, kThreads * kTasks);
}

TEST_F(StrandExecutorTest, TasksOfOneThreadKeepTheirOrder) {
  std::vector<int> order;
  std::promise<void> last;
  std::promise<void> release;
  std::thread holder([&] { executor_.Run([&] { release.get_future().wait(); }); });
  executor_.Post([&] { order.push_back(0); });
  for (int i = 1; i < 200; ++i) executor_.Post([&order, i] { order.push_back(i); });
  executor_.Post([&] { last.set_value(); });
  release.set_value();
  last.get_future().wait();
  holder.join();
  for (int i = 0; i < 200; ++i) EXPECT_EQ(order[static_cast<size_t>(i)], i);
}

TEST_F(StrandExecutorTest, ABorrowedThreadIsGivenBack) {
  // A task that always queues another would keep a thread for ever that has to drain the queue.
  std::atomic<bool> stop = false;
  std::function<void()> again = [&] {
    if (!stop) executor_.Post([&] { again(); });
  };
  executor_.Run([&] { again(); });  // comes back
  stop = true;
  std::promise<void> drained;
  executor_.Post([&] { drained.set_value(); });
  drained.get_future().wait();
}

TEST_F(StrandExecutorTest, TimersRunInTheOrderOfTheirDeadlines) {
  std::vector<int> order;
  std::promise<void> last;
  executor_.Run([&] {
    executor_.RunAfter(absl::Milliseconds(30), [&] {
      order.push_back(3);
      last.set_value();
    });
    executor_.RunAfter(absl::Milliseconds(10), [&] { order.push_back(2); });
    executor_.RunAfter(absl::ZeroDuration(), [&] { order.push_back(1); });
  });
  last.get_future().wait();
  EXPECT_THAT(order, testing::ElementsAre(1, 2, 3));
}

TEST_F(StrandExecutorTest, ACancelledTimerDoesNotRunEvenWhenItIsDue) {
  bool ran = false;
  std::promise<void> later;
  executor_.Run([&] {
    // Both are due at once; the first cancels the second, which is in the queue by then.
    auto second = std::make_shared<core::TimerId>(0);
    executor_.RunAfter(absl::ZeroDuration(), [&, second] { executor_.Cancel(*second); });
    *second = executor_.RunAfter(absl::ZeroDuration(), [&] { ran = true; });
    executor_.RunAfter(absl::Milliseconds(5), [&] { later.set_value(); });
  });
  later.get_future().wait();
  EXPECT_FALSE(ran);
}

TEST_F(StrandExecutorTest, StopDropsWhatIsQueuedAndDestroysIt) {
  auto token = std::make_shared<int>(0);
  executor_.Run([&] {
    executor_.RunAfter(absl::Hours(1), [token] {});
  });
  EXPECT_EQ(token.use_count(), 2);
  executor_.Stop();
  EXPECT_EQ(token.use_count(), 1);
  executor_.Run([] { FAIL() << "ran after Stop"; });
}

}  // namespace
}  // namespace kcache::ops
