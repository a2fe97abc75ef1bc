#include "daemon/ops/event_log.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace kcache::ops {
namespace {

TEST(EventLogTest, KeepsTheLastOnesAndNumbersAll) {
  EventLog log(3);
  for (int i = 0; i < 5; ++i) log.Emit("tick", std::to_string(i), {});
  const auto events = log.Read(0, 100);
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].number(), 3u);
  EXPECT_EQ(events[2].message(), "4");
  EXPECT_EQ(log.emitted(), 5u);
  EXPECT_EQ(log.counts()["tick"], 5u);
}

TEST(EventLogTest, ReadsWhatIsNewerThanANumber) {
  EventLog log(10);
  for (int i = 0; i < 4; ++i) log.Emit("tick", std::to_string(i), {});
  const auto events = log.Read(2, 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].number(), 3u);
  EXPECT_TRUE(log.Read(4, 100).empty());
}

TEST(EventLogTest, BytesThatAreNotUtf8StillMakeAnEvent) {
  EventLog log(10);
  log.Emit("tick", "a\xff" "b", {{"k", "\xfe"}});
  const auto events = log.Read(0, 1);
  ASSERT_EQ(events.size(), 1u);
  v1::Event parsed;
  EXPECT_TRUE(parsed.ParseFromString(events[0].SerializeAsString()));
  EXPECT_EQ(events[0].message(), "a\uFFFDb");
}

TEST(EventLogTest, AnAuditLineSaysWhoWhatAndWithWhatResult) {
  EventLog log(10);
  log.Audit("uid 0 pid 7", "destroy CUDA:0", "done");
  const auto events = log.Read(0, 1);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind(), "audit");
  EXPECT_EQ(events[0].fields().at("who"), "uid 0 pid 7");
  EXPECT_EQ(events[0].fields().at("result"), "done");
}

TEST(EventLogTest, FollowersAreWokenUntilTheyLeave) {
  EventLog log(10);
  std::atomic<int> woken = 0;
  const uint64_t follower = log.Follow([&] { ++woken; });
  log.Emit("tick", "1", {});
  log.Unfollow(follower);
  log.Emit("tick", "2", {});
  EXPECT_EQ(woken, 1);
}

TEST(EventLogTest, ThreadsEmitReadAndFollowAtOnce) {
  EventLog log(64);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&log] {
      for (int i = 0; i < 200; ++i) {
        const uint64_t follower = log.Follow([] {});
        log.Emit("tick", "x", {});
        log.Read(0, 8);
        log.Unfollow(follower);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(log.emitted(), 800u);
}

}  // namespace
}  // namespace kcache::ops
