// Clear and destroy, as an application sees them.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

// What listeners were told, in order.
class Heard {
 public:
  DeviceListener OnDestroy() {
    return [this](const DeviceEvent& event) {
      const DeviceId device = {event.family, event.index.value_or(UINT32_MAX)};
      Add((event.phase == EventPhase::kBefore ? "before " : "after ") + device.ToString());
      return absl::OkStatus();
    };
  }
  ClearListener OnClear() {
    return [this](const ClearEvent& event) {
      Add(event.phase == EventPhase::kBefore ? "before clear" : "after clear");
      return absl::OkStatus();
    };
  }
  std::vector<std::string> All() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return all_;
  }
  // Waits until so many were told; only a hang takes longer.
  std::vector<std::string> Await(size_t count) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return all_.size() >= count; });
    return all_;
  }

 private:
  void Add(std::string what) {
    const std::lock_guard<std::mutex> lock(mutex_);
    all_.push_back(std::move(what));
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

class Invalidation : public OnDevice {
 protected:
  uint64_t Generation() {
    auto contexts = Admin(Suite::Get().daemon().admin_socket()).Contexts(device());
    EXPECT_TRUE(contexts.ok()) << contexts.status();
    return contexts.ok() && !contexts->empty() ? contexts->back().context().generation() : 0;
  }
  ClearOptions OwnFamily(bool artifacts = false) const {
    ClearOptions options;
    options.family = backend().family();
    options.artifacts = artifacts;
    return options;
  }
  DeviceId family_device() const { return {backend().family(), device().index}; }
};

// G7: destroy, then acquire again: a new context under a new generation, and nothing of the old
// one.
TEST_F(Invalidation, G7_DestroyThenAcquireIsANewGeneration) {
  RunVectorAdd(client(), device(), 1000);
  const Kernel old = Acquire(Role::kIncrement);
  Buffer old_data = AllocateWith(std::vector<uint32_t>(64, 0));
  KCACHE_ASSERT_OK(queue().Synchronize());
  const uint64_t before = Generation();
  ASSERT_GT(before, 0u);

  Heard heard;
  const Registration registration = client().OnDeviceDestroy(heard.OnDestroy());
  auto report = client().DestroyDevice(family_device());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->failures, ::testing::IsEmpty());
  EXPECT_THAT(heard.All(), ::testing::ElementsAre("before " + family_device().ToString(),
                                                  "after " + family_device().ToString()));
  EXPECT_FALSE(old.valid());
  absl::Status refused = old.Launch(queue(), Linear(1), old_data);
  EXPECT_THAT(
      FailureReason(refused),
      ::testing::AnyOf(Reason::kLeaseRevoked, Reason::kDeviceDestroyed, Reason::kUnknownBuffer))
      << refused;

  RunVectorAdd(client(), device(), 1000);
  EXPECT_GT(Generation(), before);
  // The old kernel does not come back to life with the new context.
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 0));
  EXPECT_FALSE(old.Launch(queue(), Linear(1), data).ok());
  EXPECT_FALSE(old_data.Write(queue(), std::vector<uint32_t>(64, 1)).ok() &&
               queue().Synchronize().ok());
}

TEST_F(Invalidation, ClearThenRunTwice) {
  Heard heard;
  const Registration registration = client().OnClearAll(heard.OnClear());
  for (int round = 0; round < 2; ++round) {
    RunVectorAdd(client(), device(), 1000);
    const Kernel old = Acquire(Role::kIncrement);
    Buffer data = AllocateWith(std::vector<uint32_t>(64, 7));
    KCACHE_ASSERT_OK(queue().Synchronize());
    const uint64_t generation = Generation();
    auto report = client().Clear(OwnFamily());
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_THAT(report->failures, ::testing::IsEmpty());
    EXPECT_FALSE(old.valid());
    EXPECT_FALSE(old.Launch(queue(), Linear(1), data).ok());
    // Handles go, contexts and buffers stay.
    EXPECT_EQ(Generation(), generation);
    const Kernel again = Acquire(Role::kIncrement);
    KCACHE_ASSERT_OK(again.Launch(queue(), Linear(1), data));
    EXPECT_THAT(Contents<uint32_t>(data, 64), ::testing::Each(8u));
    EXPECT_EQ(heard.All().size(), static_cast<size_t>(2 * (round + 1)));
  }
}

TEST_F(Invalidation, ClearOfArtifactsCompilesAgain) {
  RunVectorAdd(client(), device(), 100);
  const Admin admin(Suite::Get().daemon().admin_socket());
  auto before = admin.Status();
  ASSERT_TRUE(before.ok()) << before.status();
  KCACHE_ASSERT_OK(client().Clear(OwnFamily()).status());
  RunVectorAdd(client(), device(), 100);
  auto kept = admin.Status();
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->compiles(), before->compiles());
  // Artifacts are the node's: an application may not clear them, an operator may.
  EXPECT_EQ(FailureReason(client().Clear(OwnFamily(true)).status()), Reason::kPermissionDenied);
  auto cleared = admin.ClearArtifacts(backend().family());
  ASSERT_TRUE(cleared.ok()) << cleared.status();
  EXPECT_TRUE(cleared->result().ok()) << cleared->DebugString();
  RunVectorAdd(client(), device(), 100);
  auto after = admin.Status();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(after->compiles(), before->compiles() + 1);
}

// G6: the destroy of a foreign family's device 0 is no event for ours.
TEST_F(Invalidation, G6_ForeignDestroyEvictsNothing) {
  const DeviceInfo* foreign = nullptr;
  for (const DeviceInfo& other : Suite::Get().all_devices().devices) {
    const std::string family = other.id.framework.substr(0, other.id.framework.find('/'));
    if (family != backend().family() && other.id.index == device().index) foreign = &other;
  }
  if (foreign == nullptr) GTEST_SKIP() << "no other family has a device here";
  const Kernel kernel = Acquire(Role::kIncrement);
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 0));
  KCACHE_ASSERT_OK(queue().Synchronize());
  // The other family has to have a context of ours, or there is nothing to destroy.
  auto theirs = client().Allocate(foreign->id, 4096);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  auto report = client().DestroyDevice(foreign->id);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(kernel.valid());
  KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(1), data));
  EXPECT_THAT(Contents<uint32_t>(data, 64), ::testing::Each(1u));
}

TEST_F(Invalidation, G6_OwnDestroyEvicts) {
  const Kernel kernel = Acquire(Role::kIncrement);
  ASSERT_TRUE(kernel.valid());
  Heard heard;
  const Registration registration = client().OnDeviceDestroy(heard.OnDestroy());
  auto update = Admin(Suite::Get().daemon().admin_socket()).DestroyDevice(family_device());
  ASSERT_TRUE(update.ok()) << update.status();
  EXPECT_TRUE(update->result().ok()) << update->DebugString();
  EXPECT_EQ(update->result().unacked(), 0u) << update->DebugString();
  // The operator may know before this client does.
  EXPECT_EQ(heard.Await(2).size(), 2u);
  EXPECT_FALSE(kernel.valid());
  RunVectorAdd(client(), device(), 100);
}

// G6: an event of the family reaches a kernel that was acquired under a variant.
TEST_F(Invalidation, FamilyEventReachesTheVariant) {
  const std::vector<std::string>& variants = Suite::Get().devices()[0].variants;
  ASSERT_FALSE(variants.empty());
  const DeviceId variant = {backend().family() + "/" + variants[0], device().index};
  const Kernel kernel = AcquireFrom(client(), Role::kIncrement, variant);
  ASSERT_FALSE(kernel.empty());
  Heard heard;
  const Registration registration = client().OnDeviceDestroy(heard.OnDestroy());
  auto report = client().DestroyDevice(family_device());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(kernel.valid());
  EXPECT_EQ(heard.All().size(), 2u);
  RunVectorAdd(client(), variant, 100);
}

// Another process is told too, and its next acquire works.
TEST_F(Invalidation, G2_EveryHolderIsTold) {
  auto other = Connect(Suite::Get().daemon(), "bystander");
  ASSERT_TRUE(other.ok()) << other.status();
  const Kernel theirs = AcquireFrom(**other, Role::kIncrement, device());
  Heard heard;
  const Registration registration = (*other)->OnDeviceDestroy(heard.OnDestroy());
  auto report = client().DestroyDevice(family_device());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(heard.Await(2), ::testing::ElementsAre("before " + family_device().ToString(),
                                                     "after " + family_device().ToString()));
  EXPECT_FALSE(theirs.valid());
  RunVectorAdd(**other, device(), 100);
}

// What is in flight when the destroy comes is finished, not torn.
TEST_F(Invalidation, WorkInFlightIsFinished) {
  const Kernel kernel = Acquire(Role::kIncrement);
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 0));
  std::vector<uint32_t> result(64);
  LaunchConfig config = Linear(1);
  config.repeat = 300;
  KCACHE_ASSERT_OK(kernel.Launch(queue(), config, data));
  absl::Status read = absl::UnknownError("not done");
  std::mutex mutex;
  std::condition_variable done;
  bool finished = false;
  KCACHE_ASSERT_OK(data.ReadAsync(queue(), 0, std::as_writable_bytes(std::span(result)),
                                  [&](absl::Status status) {
                                    const std::lock_guard<std::mutex> lock(mutex);
                                    read = status;
                                    finished = true;
                                    done.notify_all();
                                  }));
  KCACHE_ASSERT_OK(queue().Flush());
  auto report = client().DestroyDevice(family_device());
  ASSERT_TRUE(report.ok()) << report.status();
  std::unique_lock<std::mutex> lock(mutex);
  done.wait(lock, [&] { return finished; });
  KCACHE_EXPECT_OK(read);
  EXPECT_THAT(result, ::testing::Each(300u));
}

}  // namespace
}  // namespace kcache::conformance
