#include "daemon/ops/epoll_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <future>

namespace kcache::ops {
namespace {

class EpollLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loop = EpollLoop::Create("test");
    ASSERT_TRUE(loop.ok()) << loop.status();
    loop_ = *std::move(loop);
    int fds[2];
    ASSERT_EQ(pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
    read_.Reset(fds[0]);
    write_.Reset(fds[1]);
  }

  UniqueFd read_;
  UniqueFd write_;
  std::unique_ptr<EpollLoop> loop_;
};

TEST_F(EpollLoopTest, TellsWhatIsReadable) {
  std::promise<char> got;
  auto watch = loop_->Add(read_.get(), EPOLLIN, [&](uint32_t) {
    char byte = 0;
    if (read(read_.get(), &byte, 1) == 1) got.set_value(byte);
  });
  ASSERT_TRUE(watch.ok()) << watch.status();
  ASSERT_EQ(write(write_.get(), "x", 1), 1);
  EXPECT_EQ(got.get_future().get(), 'x');
}

TEST_F(EpollLoopTest, AHandlerMayRemoveItself) {
  std::atomic<int> calls = 0;
  std::promise<void> called;
  auto watch = std::make_shared<std::atomic<EpollLoop::WatchId>>(0);
  std::promise<void> added;
  auto ready = added.get_future().share();
  auto id = loop_->Add(read_.get(), EPOLLIN, [&, watch, ready](uint32_t) {
    ready.wait();
    loop_->Remove(*watch);
    if (++calls == 1) called.set_value();
  });
  ASSERT_TRUE(id.ok());
  *watch = *id;
  added.set_value();
  ASSERT_EQ(write(write_.get(), "x", 1), 1);  // stays readable: level-triggered
  called.get_future().wait();
  std::promise<void> later;
  loop_->Run([&] { later.set_value(); });
  later.get_future().wait();
  EXPECT_EQ(calls, 1);
}

TEST_F(EpollLoopTest, RemoveWaitsForARunningHandler) {
  std::promise<void> entered;
  std::promise<void> leave;
  std::atomic<bool> left = false;
  auto watch = loop_->Add(read_.get(), EPOLLIN, [&](uint32_t) {
    char byte = 0;
    (void)!read(read_.get(), &byte, 1);
    entered.set_value();
    leave.get_future().wait();
    left = true;
  });
  ASSERT_TRUE(watch.ok());
  ASSERT_EQ(write(write_.get(), "x", 1), 1);
  entered.get_future().wait();
  std::thread releaser([&] { leave.set_value(); });
  loop_->Remove(*watch);
  EXPECT_TRUE(left);
  releaser.join();
}

TEST_F(EpollLoopTest, NothingCanBeAddedAfterStop) {
  loop_->Stop();
  EXPECT_FALSE(loop_->Add(read_.get(), EPOLLIN, [](uint32_t) {}).ok());
}

}  // namespace
}  // namespace kcache::ops
