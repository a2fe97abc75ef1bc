// What the daemon says of the backend's devices.

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "absl/cleanup/cleanup.h"
#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

constexpr std::chrono::seconds kPatience{60};

// What a listener has heard.
class Told {
 public:
  void Add(const DeviceEvent& event) {
    std::lock_guard<std::mutex> lock(mutex_);
    after_ |= event.phase == EventPhase::kAfter;
    changed_.notify_all();
  }
  bool AwaitAfter() {
    std::unique_lock<std::mutex> lock(mutex_);
    return changed_.wait_for(lock, kPatience, [this] { return after_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool after_ = false;
};

class Probe : public OnDevice {};
class Families : public Conformance {};

TEST_F(Probe, DevicesAreDescribed) {
  for (const DeviceInfo& device : Suite::Get().devices()) {
    EXPECT_EQ(device.state, DeviceState::kUp) << device.reason;
    EXPECT_FALSE(device.name.empty());
    EXPECT_FALSE(device.architecture.empty());
    EXPECT_FALSE(device.driver_version.empty());
    EXPECT_FALSE(device.compiler_version.empty());
    EXPECT_FALSE(device.languages.empty());
    EXPECT_NE(device.global_id, 0u);
    EXPECT_GT(device.limits.max_local_size, 0u);
    EXPECT_GT(device.limits.memory_bytes, 0u);
  }
}

// What `kcachectl devices` shows beside that.
TEST_F(Probe, OperatorsSeeFingerprintsAndIdentity) {
  auto list = Admin(Suite::Get().daemon().admin_socket()).Devices();
  ASSERT_TRUE(list.ok()) << list.status();
  std::set<std::string> identities;
  size_t seen = 0;
  for (const v1::AdminDevice& device : list->devices()) {
    const v1::DeviceInfo& info = device.info();
    if (info.device().framework() != backend().family()) continue;
    ++seen;
    EXPECT_FALSE(info.compiler_fingerprint().empty()) << info.name();
    EXPECT_EQ(device.physical_id().empty(), info.uuid().empty() && info.pci_address().empty());
    if (!info.uuid().empty()) {
      EXPECT_TRUE(identities.insert(info.uuid()).second) << info.uuid();
    }
    // Where a device has modes, all of them are told.
    if (info.mps() || info.mig()) {
      EXPECT_FALSE(info.compute_mode().empty());
      EXPECT_FALSE(info.reason().empty());
    }
  }
  EXPECT_EQ(seen, Suite::Get().devices().size());
}

TEST_F(Probe, RescanChangesNothingThatIsStillThere) {
  const Kernel kernel = Acquire(Role::kIncrement);
  ASSERT_FALSE(kernel.empty());
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 1));
  const Admin admin(Suite::Get().daemon().admin_socket());
  auto before = admin.Devices();
  auto done = admin.Rescan();
  ASSERT_TRUE(done.ok()) << done.status();
  auto after = admin.Devices();
  ASSERT_TRUE(before.ok() && after.ok());
  ASSERT_EQ(before->devices_size(), after->devices_size());
  for (int i = 0; i < before->devices_size(); ++i) {
    const v1::DeviceInfo& old = before->devices(i).info();
    const v1::DeviceInfo& now = after->devices(i).info();
    EXPECT_EQ(old.global_id(), now.global_id());
    EXPECT_EQ(old.compiler_fingerprint(), now.compiler_fingerprint());
  }
  EXPECT_TRUE(kernel.valid());
  KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(1), data));
  EXPECT_THAT(Contents<uint32_t>(data, 64), ::testing::Each(2u));
}

// A daemon that starts without the driver lists the family with the reason; a rescan after the
// driver's return brings its devices in.
TEST_F(Probe, RescanBringsInADriverThatReturned) {
  if (backend().driver_variable.empty()) {
    GTEST_SKIP() << "this API's driver is found by its library's name alone: it cannot be away here";
  }
  // Loaders go by the extension.
  const std::string place = Suite::Get().daemon().directory() + "/drivers" +
                            std::filesystem::path(backend().driver_place).extension().string();
  auto daemon = Suite::Get().NewDaemon({}, {{backend().driver_variable, place}});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  auto client = Connect(**daemon, "before the driver");
  ASSERT_TRUE(client.ok()) << client.status();
  auto list = (*client)->ListDevices();
  ASSERT_TRUE(list.ok()) << list.status();
  std::string reason;
  for (const UnavailableFamily& family : list->unavailable) {
    if (family.family == backend().family()) reason = family.reason;
  }
  EXPECT_FALSE(reason.empty());

  std::filesystem::create_symlink(backend().driver_place, place);
  const auto remove = absl::MakeCleanup([&] { std::filesystem::remove(place); });
  auto done = Admin((*daemon)->admin_socket()).Rescan();
  ASSERT_TRUE(done.ok()) << done.status();
  list = (*client)->ListDevices();
  ASSERT_TRUE(list.ok()) << list.status();
  bool found = false;
  for (const DeviceInfo& device : list->devices) found |= device.id.framework == backend().family();
  ASSERT_TRUE(found) << "unavailable before: " << reason;
  RunVectorAdd(**client, device(), 1000);
  (*client)->Close();
  KCACHE_EXPECT_OK((*daemon)->Stop());
}

// The driver is taken away under a running daemon, and put back: nobody asks for a rescan.
TEST_F(Probe, ADriverThatGoesAndReturnsIsAnEvent) {
  if (backend().driver_variable.empty()) {
    GTEST_SKIP() << "this API's driver is found by its library's name alone: it cannot be away here";
  }
  const std::filesystem::path place =
      Suite::Get().daemon().directory() + "/event" +
      std::filesystem::path(backend().driver_place).extension().string();
  std::filesystem::create_symlink(backend().driver_place, place);
  const auto remove = absl::MakeCleanup([&] { std::filesystem::remove(place); });
  auto daemon = Suite::Get().NewDaemon({}, {{backend().driver_variable, place}});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  auto client = Connect(**daemon, "while the driver goes");
  ASSERT_TRUE(client.ok()) << client.status();
  const Kernel kernel = AcquireFrom(**client, Role::kVectorAdd, device());
  ASSERT_FALSE(kernel.empty());
  Told told;
  const Registration registration = (*client)->OnDeviceDestroy([&](const DeviceEvent& event) {
    told.Add(event);
    return absl::OkStatus();
  });

  std::filesystem::remove(place);
  ASSERT_TRUE(told.AwaitAfter()) << (*daemon)->Log();
  EXPECT_FALSE(kernel.valid()) << "invalidated as by a destroy";
  auto list = (*client)->ListDevices();
  ASSERT_TRUE(list.ok()) << list.status();
  for (const DeviceInfo& info : list->devices) {
    if (info.id.framework != backend().family()) continue;
    EXPECT_EQ(info.state, DeviceState::kUnavailable);
    EXPECT_FALSE(info.reason.empty());
  }

  // The daemon answers NOT_READY with that reason; the library waits as long as the application lets it.
  auto waiting = std::async(std::launch::async, [&] {
    return (*client)->Acquire({.program = *ProgramOf(Role::kVectorAdd),
                               .entry = backend().kernels.at(Role::kVectorAdd).entry,
                               .device = device()});
  });
  std::filesystem::create_symlink(backend().driver_place, place);
  const auto again = waiting.get();
  EXPECT_TRUE(again.ok()) << again.status() << "\n" << (*daemon)->Log();
  RunVectorAdd(**client, device(), 1000);
  (*client)->Close();
  KCACHE_EXPECT_OK((*daemon)->Stop());
}

TEST_F(Probe, EveryLanguageOfTheKernelsIsListed) {
  for (const auto& [role, source] : backend().kernels) {
    EXPECT_THAT(Suite::Get().devices()[0].languages, ::testing::Contains(source.language))
        << RoleName(role);
  }
}

TEST_F(Probe, GlobalIdsAreUniqueAndStable) {
  auto again = client().ListDevices();
  ASSERT_TRUE(again.ok()) << again.status();
  std::set<uint64_t> ids;
  for (const DeviceInfo& device : again->devices) {
    EXPECT_TRUE(ids.insert(device.global_id).second) << device.id;
    for (const DeviceInfo& before : Suite::Get().all_devices().devices) {
      if (before.id == device.id) {
        EXPECT_EQ(before.global_id, device.global_id);
      }
    }
  }
}

TEST_F(Probe, UnknownDeviceListsTheKnown) {
  auto program = ProgramOf(Role::kVectorAdd);
  ASSERT_TRUE(program.ok()) << program.status();
  auto kernel = client().Acquire({.program = *program,
                                  .entry = backend().kernels.at(Role::kVectorAdd).entry,
                                  .device = {backend().framework, 999}});
  EXPECT_EQ(FailureReason(kernel.status()), Reason::kUnknownDevice) << kernel.status();
  EXPECT_THAT(std::string(kernel.status().message()), ::testing::HasSubstr(":0"));
}

// A family that cannot be used here is listed with the reason, and is no obstacle to the others.
// One daemon serves every family there is at once, and what becomes of one is nothing to the others.
TEST_F(Families, AllServeInOneDaemonAndDestroyingOneLeavesTheOthers) {
  if (Suite::Get().devices().empty()) GTEST_SKIP() << Suite::Get().unavailable();
  std::map<std::string, Backend> others;  // by family
  for (Backend& other : AllBackends()) {
    if (other.family() != backend().family()) others.emplace(other.family(), std::move(other));
  }
  std::vector<std::pair<const Backend*, DeviceId>> served;
  for (const DeviceInfo& device : Suite::Get().all_devices().devices) {
    const auto other = others.find(device.id.framework);
    if (other == others.end() || device.id.index != 0) continue;
    served.emplace_back(&other->second, device.id);
    RunVectorAddOf(other->second, client(), device.id, 1000);
  }
  ASSERT_FALSE(served.empty()) << "this daemon has the fake family at least";
  RunVectorAdd(client(), device(), 1000);
  if (HasFatalFailure()) return;

  std::map<DeviceId, Kernel> held;
  for (const auto& [other, id] : served) {
    held[id] = AcquireOf(*other, client(), Role::kIncrement, id);
    ASSERT_FALSE(held[id].empty()) << id.ToString();
  }
  auto update = Admin(Suite::Get().daemon().admin_socket()).DestroyDevice(device());
  ASSERT_TRUE(update.ok()) << update.status();
  ASSERT_TRUE(update->result().ok()) << update->ShortDebugString();
  for (const auto& [other, id] : served) {
    // The lease from before the destroy is as good as it was.
    auto queue = client().GetQueue(id);
    ASSERT_TRUE(queue.ok()) << queue.status();
    auto buffer = client().Allocate(id, 64 * sizeof(uint32_t));
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    std::vector<uint32_t> values(64, 41);
    KCACHE_ASSERT_OK(buffer->Write(*queue, values));
    KCACHE_ASSERT_OK(held[id].Launch(*queue, Linear(1), *buffer));
    KCACHE_ASSERT_OK(buffer->Read(*queue, &values));
    EXPECT_THAT(values, ::testing::Each(42u)) << id.ToString();
    RunVectorAddOf(*other, client(), id, 1000);
  }
  RunVectorAdd(client(), device(), 1000);
}

TEST_F(Families, MissingOnesSayWhy) {
  const DeviceList& list = Suite::Get().all_devices();
  for (const UnavailableFamily& family : list.unavailable) {
    EXPECT_FALSE(family.reason.empty()) << family.family;
  }
  // The family under test is in one list or the other.
  bool known = !Suite::Get().devices().empty();
  for (const UnavailableFamily& family : list.unavailable) {
    known = known || family.family == backend().family();
  }
  EXPECT_TRUE(known);
}

}  // namespace
}  // namespace kcache::conformance
