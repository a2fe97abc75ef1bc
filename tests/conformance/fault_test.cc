// G8: kernels that fault or never end cost one context, and nobody else notices.

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

// In the first page, which no process has mapped.
constexpr uint64_t kUnmapped = 64;

::testing::Matcher<Reason> IsLoss() {
  return ::testing::AnyOf(Reason::kDeviceLost, Reason::kKernelFault);
}

// Counts the losses and destroys that a client has been told of, so that a test goes on only when
// it knows: an acquire that overlaps a loss is told DEVICE_DESTROYED (G3).
class LossWatch {
 public:
  explicit LossWatch(Client& client)
      : registration_(client.OnDeviceDestroy([this](const DeviceEvent& event) {
          const std::lock_guard<std::mutex> lock(mutex_);
          if (event.phase == EventPhase::kAfter) ++told_;
          changed_.notify_all();
          return absl::OkStatus();
        })) {}

  // False when the `count`-th loss has not been told in a time that only a hang takes.
  bool AwaitLoss(int count) {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, std::chrono::minutes(1), [&] { return told_ >= count; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int told_ = 0;
  Registration registration_;  // last: its callback uses the others
};

class Faults : public OnDevice {
 protected:
  LaunchConfig Endless() const { return LaunchConfig::Grid(backend().endless_grid, {1}); }

  // Launches the faulting kernel with a client of its own; how its synchronize ended.
  absl::Status Fault() {
    auto victim = Connect(Suite::Get().daemon(), "faulting");
    if (!victim.ok()) return victim.status();
    const Kernel kernel = AcquireFrom(**victim, Role::kFault, device());
    if (kernel.empty()) return absl::InternalError("no faulting kernel");
    auto queue = (*victim)->GetQueue(device());
    auto out = (*victim)->Allocate(device(), 256);
    if (!queue.ok() || !out.ok()) return absl::InternalError("no queue or buffer");
    const absl::Status launched = kernel.Launch(*queue, Single(), *out, kUnmapped);
    return launched.ok() ? queue->Synchronize() : launched;
  }

  // Destroys the device: no process of the daemon's is left on it. A backend that is allowed STUCK must
  // say so, and is asked again: a destroy of a STUCK device waits for its process only, and when that
  // has gone the device is UP without an operator.
  void DestroyUntilFree(testing::PrivateDaemon& daemon) {
    const Admin admin(daemon.admin_socket());
    const DeviceId whole{backend().family(), device().index};
    constexpr int kMostDestroys = 12;
    for (int i = 0; i < kMostDestroys; ++i) {
      auto update = admin.DestroyDevice(whole);
      ASSERT_TRUE(update.ok()) << update.status();
      if (update->result().device_free() != "no") return;
      ASSERT_EQ(update->result().error().reason(), v1::STUCK) << update->DebugString();
      ASSERT_TRUE(i > 0 || Suite::Get().UseAllowance()) << update->DebugString();
    }
    FAIL() << "still STUCK after " << kMostDestroys << " destroys";
  }
};

TEST_F(Faults, G8_HoldersGetLostAndTheNextAcquireWorks) {
  const Kernel bystander = Acquire(Role::kIncrement);
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 0));
  KCACHE_ASSERT_OK(queue().Synchronize());
  LossWatch watch(client());
  const absl::Status failure = Fault();
  EXPECT_THAT(FailureReason(failure), IsLoss()) << failure;
  ASSERT_TRUE(watch.AwaitLoss(1));
  EXPECT_FALSE(bystander.valid());

  // The same trust domain shares the context: this session's kernel is lost with it, and says so
  // without a crash.
  absl::Status mine = bystander.Launch(queue(), Linear(1), data);
  if (mine.ok()) mine = queue().Synchronize();
  EXPECT_FALSE(mine.ok());
  RunVectorAdd(client(), device(), 1000);
}

TEST_F(Faults, G8_AgainAndAgain) {
  LossWatch watch(client());
  RunVectorAdd(client(), device(), 100);
  for (int i = 1; i <= 3; ++i) {
    const absl::Status failure = Fault();
    EXPECT_THAT(FailureReason(failure), IsLoss()) << failure;
    ASSERT_TRUE(watch.AwaitLoss(i));
    RunVectorAdd(client(), device(), 100);
  }
}

// S27
TEST_F(Faults, G8_AnotherDeviceNoticesNothing) {
  if (Suite::Get().devices().size() < 2) {
    GTEST_SKIP() << "there is only one device of this family here";
  }
  const Kernel kernel = Acquire(Role::kIncrement, {}, 1);
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 0), 1);
  KCACHE_ASSERT_OK(queue(0, 1).Synchronize());
  const absl::Status failure = Fault();
  EXPECT_THAT(FailureReason(failure), IsLoss()) << failure;
  EXPECT_TRUE(kernel.valid());
  KCACHE_ASSERT_OK(kernel.Launch(queue(0, 1), Linear(1), data));
  EXPECT_THAT(Contents<uint32_t>(data, 64, 1), ::testing::Each(1u));
}

TEST_F(Faults, G8_AnotherDomainNoticesNothing) {
  // Every session its own domain, and so its own context, on the same device.
  auto daemon = Suite::Get().NewDaemon(
      {"--isolation.domain=session", "--hosts.crashes-to-hold=1000", "--hosts.backoff=0s"});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  auto victim = Connect(**daemon, "faulting"), other = Connect(**daemon, "bystander");
  ASSERT_TRUE(victim.ok() && other.ok());
  const Kernel kernel = AcquireFrom(**other, Role::kIncrement, device());
  auto other_queue = (*other)->GetQueue(device());
  auto data = (*other)->Allocate(device(), 256);
  ASSERT_TRUE(other_queue.ok() && data.ok());
  KCACHE_ASSERT_OK(data->Write(*other_queue, std::vector<uint32_t>(64, 1)));
  KCACHE_ASSERT_OK(kernel.Launch(*other_queue, Linear(1), *data));
  KCACHE_ASSERT_OK(other_queue->Synchronize());

  const Kernel fault = AcquireFrom(**victim, Role::kFault, device());
  auto queue = (*victim)->GetQueue(device());
  auto out = (*victim)->Allocate(device(), 256);
  ASSERT_TRUE(queue.ok() && out.ok());
  KCACHE_ASSERT_OK(fault.Launch(*queue, Single(), *out, kUnmapped));
  EXPECT_THAT(FailureReason(queue->Synchronize()), IsLoss());

  EXPECT_TRUE(kernel.valid());
  std::vector<uint32_t> values;
  values.resize(64);
  KCACHE_ASSERT_OK(kernel.Launch(*other_queue, Linear(1), *data));
  KCACHE_ASSERT_OK(data->Read(*other_queue, &values));
  EXPECT_THAT(values, ::testing::Each(3u));
  (*victim)->Close();
  (*other)->Close();
  KCACHE_EXPECT_OK((*daemon)->Stop());
}

// The watchdog ends a host whose kernel makes no progress, when the configuration asks for it.
TEST_F(Faults, G8_EndlessKernelIsEndedAndOthersLive) {
  auto daemon = Suite::Get().NewDaemon(
      {"--hosts.stalled-kernel=10s", "--isolation.domain=session", "--hosts.backoff=0s"});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  auto stuck = Connect(**daemon, "stuck"), other = Connect(**daemon, "bystander");
  ASSERT_TRUE(stuck.ok() && other.ok());
  RunVectorAdd(**other, device(), 100);

  const Kernel endless = AcquireFrom(**stuck, Role::kEndless, device());
  auto queue = (*stuck)->GetQueue(device());
  auto flag = (*stuck)->Allocate(device(), 256);
  ASSERT_TRUE(queue.ok() && flag.ok());
  KCACHE_ASSERT_OK(flag->Write(*queue, std::vector<uint32_t>(64, 0)));
  KCACHE_ASSERT_OK(queue->Synchronize());
  LossWatch watch(**stuck);
  KCACHE_ASSERT_OK(endless.Launch(*queue, Endless(), *flag));
  const absl::Status lost = queue->Synchronize();
  EXPECT_THAT(FailureReason(lost), IsLoss()) << lost;
  ASSERT_TRUE(watch.AwaitLoss(1));

  RunVectorAdd(**other, device(), 100);
  RunVectorAdd(**stuck, device(), 100);
  DestroyUntilFree(**daemon);  // with what is left of the process that has been lost
  (*stuck)->Close();
  (*other)->Close();
  KCACHE_EXPECT_OK((*daemon)->Stop());
}

// G13: a destroy does not wait for it for ever either: the host is killed when the time to finish
// is over.
TEST_F(Faults, G13_DestroyEndsAnEndlessKernel) {
  auto daemon = Suite::Get().NewDaemon({"--limits.finish=1s", "--limits.grace=500ms"});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  auto stuck = Connect(**daemon, "stuck");
  ASSERT_TRUE(stuck.ok());
  const Kernel endless = AcquireFrom(**stuck, Role::kEndless, device());
  auto queue = (*stuck)->GetQueue(device());
  auto flag = (*stuck)->Allocate(device(), 256);
  ASSERT_TRUE(queue.ok() && flag.ok());
  KCACHE_ASSERT_OK(flag->Write(*queue, std::vector<uint32_t>(64, 0)));
  KCACHE_ASSERT_OK(queue->Synchronize());
  KCACHE_ASSERT_OK(endless.Launch(*queue, Endless(), *flag));
  KCACHE_ASSERT_OK(queue->Flush());
  LossWatch watch(**stuck);
  DestroyUntilFree(**daemon);
  ASSERT_TRUE(watch.AwaitLoss(1));
  RunVectorAdd(**stuck, device(), 100);
  (*stuck)->Close();
  KCACHE_EXPECT_OK((*daemon)->Stop());
}

}  // namespace
}  // namespace kcache::conformance
