// More than one device of a family.

#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

class TwoDevices : public OnDevice {
 protected:
  void SetUp() override {
    OnDevice::SetUp();
    if (!IsSkipped() && Suite::Get().devices().size() < 2) {
      GTEST_SKIP() << "there is only one device of this family here";
    }
  }
};

// One source, two devices: distinct handles, one compile if the two are alike, and the results of
// the second are all written on the second.
TEST_F(TwoDevices, OneSourceResultsOnTheSecond) {
  RunVectorAdd(client(), device(0), 10000);
  RunVectorAdd(client(), device(1), 10000);
  const Kernel first = Acquire(Role::kIncrement, {}, 0), second = Acquire(Role::kIncrement, {}, 1);
  ASSERT_FALSE(first.empty() || second.empty());
  EXPECT_EQ(first.device(), device(0));
  EXPECT_EQ(second.device(), device(1));
  Buffer data = AllocateWith(std::vector<uint32_t>(6400, 41), 1);
  KCACHE_ASSERT_OK(second.Launch(queue(0, 1), Linear(100), data));
  EXPECT_THAT(Contents<uint32_t>(data, 6400, 1), ::testing::Each(42u));
}

TEST_F(TwoDevices, AlikeDevicesShareOneCompile) {
  if (Suite::Get().devices()[0].architecture != Suite::Get().devices()[1].architecture) {
    GTEST_SKIP() << "the two devices have different architectures";
  }
  ASSERT_FALSE(Acquire(Role::kSaxpy, {}, 0).empty());
  const Admin admin(Suite::Get().daemon().admin_socket());
  auto before = admin.Status();
  ASSERT_TRUE(before.ok()) << before.status();
  ASSERT_FALSE(Acquire(Role::kSaxpy, {}, 1).empty());
  auto after = admin.Status();
  ASSERT_TRUE(after.ok()) << after.status();
  EXPECT_EQ(before->compiles(), after->compiles());
}

TEST_F(TwoDevices, NothingOfOneIsTakenForTheOthers) {
  const Kernel first = Acquire(Role::kIncrement, {}, 0);
  ASSERT_FALSE(first.empty());
  Buffer data = Allocate(256, 1);
  EXPECT_FALSE(first.Launch(queue(0, 0), Linear(1), data).ok());
  EXPECT_FALSE(first.Launch(queue(0, 1), Linear(1), data).ok());
}

// G6: an event of one device leaves the other alone.
TEST_F(TwoDevices, G6_DestroyOfOneLeavesTheOther) {
  const Kernel first = Acquire(Role::kIncrement, {}, 0), second = Acquire(Role::kIncrement, {}, 1);
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 1), 1);
  auto report = client().DestroyDevice(device(0));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_FALSE(first.valid());
  EXPECT_TRUE(second.valid());
  KCACHE_ASSERT_OK(second.Launch(queue(0, 1), Linear(1), data));
  EXPECT_THAT(Contents<uint32_t>(data, 64, 1), ::testing::Each(2u));
  RunVectorAdd(client(), device(0), 100);
}

}  // namespace
}  // namespace kcache::conformance
