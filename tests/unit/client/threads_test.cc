// The library under real threads: acquires, launches and releases against invalidations and breaks.
// What ThreadSanitizer is for; the assertions are the guarantees that hold whatever the
// interleaving.

#include "client/src/threads.h"

#include <atomic>
#include <thread>

#include "client_fixture.h"

namespace kcache::internal {
namespace {

TEST(TimerThread, RunsInOrderOfTimeAndCancels) {
  TimerThread timers;
  Mutex mutex;
  CondVar changed;
  std::vector<int> ran;
  const auto note = [&](int what) {
    return [&, what] {
      MutexLock lock(&mutex);
      ran.push_back(what);
      changed.NotifyAll();
    };
  };
  // Inside a task: nothing else runs meanwhile, however long this takes.
  timers.After(Duration(0), [&] {
    timers.After(std::chrono::hours(1), note(8));
    timers.After(std::chrono::milliseconds(1), note(1));
    timers.Cancel(timers.After(std::chrono::milliseconds(2), note(9)));
    timers.After(std::chrono::milliseconds(3), note(2));
  });
  MutexLock lock(&mutex);
  while (ran.size() < 2) changed.Wait(&mutex);
  EXPECT_THAT(ran, ::testing::ElementsAre(1, 2));
}

TEST(TimerThread, MayBeDestroyedByItsOwnTask) {
  auto timers = std::make_shared<TimerThread>();
  Mutex mutex;
  CondVar changed;
  bool gone = false;
  TimerThread* raw = timers.get();
  raw->After(Duration(0), [&, held = std::exchange(timers, nullptr)]() mutable {
    held = nullptr;
    MutexLock lock(&mutex);
    gone = true;
    changed.NotifyAll();
  });
  MutexLock lock(&mutex);
  while (!gone) changed.Wait(&mutex);
}

TEST(SerialExecutor, RunsOneTaskAtATimeInOrder) {
  SerialExecutor executor;
  std::atomic<int> inside{0};
  std::vector<int> order;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        executor.Run([&, i] {
          EXPECT_EQ(inside.fetch_add(1), 0);
          order.push_back(i);
          inside.fetch_sub(1);
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // A task that another thread runs may still be under way; one more is behind it.
  std::atomic<bool> last{false};
  executor.Run([&] { last = true; });
  while (!last) std::this_thread::yield();
  EXPECT_EQ(order.size(), 4000u);
}

class ThreadsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto daemon = std::make_unique<FakeDaemon>();
    daemon_ = daemon.get();
    daemon_->host_runner = std::make_shared<TaskThread>();
    runtime_ = std::make_shared<Runtime>();
    runtime_->transport = std::move(daemon);
    runtime_->timers = std::make_unique<TimerThread>();
    runtime_->listeners = std::make_unique<TaskThread>();
    auto client = Client::Connect(std::make_shared<ClientImpl>(ClientOptions(), runtime_));
    ASSERT_TRUE(client.ok());
    client_ = *client;
  }

  FakeDaemon* daemon_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Client> client_;
};

TEST_F(ThreadsTest, ManyThreadsAskForTheSameKernels) {
  const Program program = *Program::FromSource("fake", "x");
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) {
        auto kernel = client_->Acquire(
            {.program = program, .entry = "k" + std::to_string(i % 20), .device = kDevice});
        ASSERT_TRUE(kernel.ok()) << kernel.status();
        ASSERT_TRUE(kernel->Launch(*client_->GetQueue(kDevice), LaunchConfig::Global(1)).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(client_->Synchronize(kDevice).ok());
  EXPECT_EQ(daemon_->acquires().size(), 20u) << "single flight";
  EXPECT_EQ(daemon_->host()->launches(), 1600u);
  EXPECT_EQ(daemon_->host()->violations(), 0u);
}

// G1, seen from the client: what it has acknowledged it never uses again, but for what it
// announced.
TEST_F(ThreadsTest, G1_ClearsWhileEverybodyLaunches) {
  const Program program = *Program::FromSource("fake", "x");
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> accepted{0};
  std::atomic<int> befores{0}, afters{0};
  const auto listener = client_->OnClearAll([&](const ClearEvent& event) {
    (event.phase == EventPhase::kBefore ? befores : afters).fetch_add(1);
    return absl::OkStatus();
  });
  // The fake fences what an ack has announced, as the daemon would have its host do.
  const std::shared_ptr<FakeHost> host = daemon_->host();
  const uint64_t context = daemon_->context().context_id();
  Mutex mutex;
  CondVar acked;
  std::string last_ack ABSL_GUARDED_BY(mutex);
  uint32_t cleared ABSL_GUARDED_BY(mutex) = 0;  // slots up to this one
  uint32_t fenced = 0;                          // the fence's own
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (!event.has_ack()) return false;
    std::map<uint32_t, uint64_t> positions;
    for (const auto& position : event.ack().positions()) {
      positions[position.queue()] = position.sequence();
    }
    MutexLock lock(&mutex);
    while (fenced < cleared) host->Fence(++fenced, positions);
    last_ack = event.ack().operation_id();
    acked.NotifyAll();
    return true;
  };
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      while (!stop) {
        auto kernel = client_->Acquire(
            {.program = program, .entry = "k" + std::to_string(t), .device = kDevice});
        if (!kernel.ok()) continue;
        for (int i = 0; i < 20; ++i) {
          if (i % 7 == 0) {
            auto use = kernel->Use();
            if (use.ok() &&
                kernel->Launch(*client_->GetQueue(kDevice, t), LaunchConfig::Global(1)).ok()) {
              accepted.fetch_add(1);
            }
          } else if (kernel->Launch(*client_->GetQueue(kDevice, t), LaunchConfig::Global(1)).ok()) {
            accepted.fetch_add(1);
          }
        }
      }
    });
  }
  int operations = 0;
  for (; operations < 30; ++operations) {
    const std::string id = std::string(15, 'o') + static_cast<char>(operations);
    v1::Invalidate event;
    event.set_operation_id(id);
    event.set_kind(v1::INVALIDATE_CLEAR);
    event.set_phase(v1::PHASE_BEFORE);
    event.mutable_context()->set_context_id(context);
    event.set_needs_ack(true);
    {
      MutexLock lock(&mutex);
      cleared = daemon_->NewSlots();  // out of circulation, before anybody is told
    }
    daemon_->Invalidate(event);
    {
      MutexLock lock(&mutex);
      while (last_ack != id) acked.Wait(&mutex);
    }
    event.set_phase(v1::PHASE_AFTER);
    event.set_needs_ack(false);
    daemon_->Invalidate(event);
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(client_->Synchronize(kDevice).ok());
  EXPECT_EQ(host->launches(), accepted.load()) << "every accepted launch arrived, and no other";
  EXPECT_EQ(host->violations(), 0u);
  client_->Close();
  client_ = nullptr;
  EXPECT_EQ(befores.load(), operations);
}

TEST_F(ThreadsTest, ClosingWhileOthersCall) {
  const Program program = *Program::FromSource("fake", "x");
  const auto kernel = client_->Acquire({.program = program, .entry = "k", .device = kDevice});
  ASSERT_TRUE(kernel.ok());
  const Queue queue = *client_->GetQueue(kDevice);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      while (kernel->Launch(queue, LaunchConfig::Global(1)).ok()) {
        client_->Acquire({.program = program, .entry = "k" + std::to_string(t), .device = kDevice})
            .IgnoreError();
      }
    });
  }
  std::this_thread::yield();
  client_->Close();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(FailureReason(kernel->Launch(queue, LaunchConfig::Global(1))), Reason::kCancelled);
}

}  // namespace
}  // namespace kcache::internal
