#include "client/ctl/device_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kcache::ctl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DeviceTextTest, WhatIsKnownIsSaid) {
  v1::DeviceInfo info;
  info.set_state(v1::DEVICE_UP);
  info.set_uuid("GPU-0123");
  info.set_compiler_version("NVRTC 13.0");
  info.add_variants("PTX");
  info.add_languages("cuda-c++");
  info.add_languages("ptx");
  info.set_compute_mode("exclusive-process");
  info.mutable_limits()->set_buffer_offset_alignment(512);
  EXPECT_EQ(DeviceDetails(info),
            "  uuid          GPU-0123\n"
            "  compiler      NVRTC 13.0\n"
            "  variants      PTX\n"
            "  languages     cuda-c++, ptx\n"
            "  buffer parts  in place at multiples of 512 bytes\n"
            "  compute mode  exclusive-process\n"
            "  MPS           off\n"
            "  MIG           off\n");
}

TEST(DeviceTextTest, ModesAndWhatTheyWeaken) {
  v1::DeviceInfo info;
  info.set_state(v1::DEVICE_UP);
  info.set_compute_mode("default");
  info.set_mps(true);
  info.set_mig(true);
  info.set_reason("MPS: a fault is shared");
  const std::string text = DeviceDetails(info);
  EXPECT_THAT(text, HasSubstr("MPS           on\n"));
  EXPECT_THAT(text, HasSubstr("MIG           a MIG instance\n"));
  EXPECT_THAT(text, HasSubstr("weakened      MPS: a fault is shared\n"));
  // The reason of a device that is not up is the table's.
  info.set_state(v1::DEVICE_UNAVAILABLE);
  EXPECT_THAT(DeviceDetails(info), Not(HasSubstr("weakened")));
}

TEST(DeviceTextTest, ADeviceWithoutModesHasNoLinesForThem) {
  v1::DeviceInfo info;
  info.set_uuid("a\x1b[31mb");
  EXPECT_EQ(DeviceDetails(info), "  uuid          a?[31mb\n");
}

}  // namespace
}  // namespace kcache::ctl
