// What the daemon says of the backend's devices.

#include <set>

#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

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
