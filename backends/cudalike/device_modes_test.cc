#include "backends/cudalike/device_modes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace kcache::backend::cudalike {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

v1::DeviceInfo Described(const DeviceModes& modes) {
  v1::DeviceInfo info;
  DescribeModes(modes, &info);
  return info;
}

TEST(DeviceModes, TheDefaultWeakensNothing) {
  const v1::DeviceInfo info = Described({});
  EXPECT_EQ(info.compute_mode(), "default");
  EXPECT_EQ(info.state(), v1::DEVICE_UP);
  EXPECT_FALSE(info.mps());
  EXPECT_FALSE(info.mig());
  EXPECT_EQ(info.reason(), "");
}

TEST(DeviceModes, ProhibitedIsUnavailableAndSaysWhy) {
  const v1::DeviceInfo info = Described({.compute_mode = 2});
  EXPECT_EQ(info.compute_mode(), "prohibited");
  EXPECT_EQ(info.state(), v1::DEVICE_UNAVAILABLE);
  EXPECT_THAT(info.reason(), HasSubstr("no context can be made"));
}

TEST(DeviceModes, ExclusiveOnesRefuseASecondDomain) {
  for (const auto& [mode, name] : {std::pair(3, "exclusive-process"), std::pair(1, "exclusive")}) {
    const v1::DeviceInfo info = Described({.compute_mode = mode});
    EXPECT_EQ(info.compute_mode(), name);
    EXPECT_EQ(info.state(), v1::DEVICE_UP);
    EXPECT_THAT(info.reason(), AllOf(HasSubstr(name), HasSubstr("second trust domain")));
  }
}

TEST(DeviceModes, MpsSharesFaultsAndLetsExclusiveCardsBeShared) {
  const v1::DeviceInfo info = Described({.compute_mode = 3, .mps = true});
  EXPECT_TRUE(info.mps());
  EXPECT_EQ(info.state(), v1::DEVICE_UP);
  EXPECT_THAT(info.reason(), AllOf(HasSubstr("MPS"), Not(HasSubstr("second trust domain"))));
}

TEST(DeviceModes, EveryWeakeningIsSaid) {
  const v1::DeviceInfo info = Described({.compute_mode = 0, .mps = true, .mig = true});
  EXPECT_TRUE(info.mig());
  EXPECT_THAT(info.reason(), AllOf(HasSubstr("MPS"), HasSubstr("; "), HasSubstr("neighbours")));
}

TEST(DeviceModes, AModeWithoutANameIsShownByItsNumber) {
  EXPECT_EQ(Described({.compute_mode = 9}).compute_mode(), "mode 9");
}

}  // namespace
}  // namespace kcache::backend::cudalike
