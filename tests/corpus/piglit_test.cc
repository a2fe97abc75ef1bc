// Reading piglit's test blocks and comparing values.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "tests/corpus/piglit_file.h"
#include "tests/corpus/piglit_run.h"
#include "tests/corpus/piglit_values.h"

namespace kcache::corpus {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

template <typename T>
std::string BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

PiglitFile MustParse(const std::string& block) {
  absl::StatusOr<PiglitFile> file =
      ParsePiglitFile("/*!\n" + block + "\n!*/\nkernel void f() {}\n");
  EXPECT_TRUE(file.ok()) << file.status();
  return file.ok() ? *std::move(file) : PiglitFile();
}

TEST(PiglitFile, TestsInheritAndOverrideTheConfiguration) {
  const PiglitFile file = MustParse(R"(
[config]
name: Numbers           # a comment
clc_version_min: 10
build_options: -D A=1 -w
require_device_extensions: cl_khr_fp64 cl_khr_int64_base_atomics
dimensions: 2
global_size: 8 4 0
local_size: 2 2 0
kernel_name: first

[test]
name: inherits
arg_out: 0 buffer int[2] 1 -2

[test]
name: overrides
kernel_name: second
dimensions: 1
global_size: 16 0 0
local_size: NULL
global_offset: 9 0 0
expect_test_fail: true
arg_in: 1 float 1.5
)");
  EXPECT_EQ(file.name, "Numbers");
  EXPECT_EQ(file.minimum_version, 10U);
  EXPECT_THAT(file.build_options, ElementsAre("-D", "A=1", "-w"));
  EXPECT_EQ(file.device_extensions.size(), 2U);
  ASSERT_EQ(file.tests.size(), 2U);
  EXPECT_EQ(file.tests[0].kernel, "first");
  EXPECT_EQ(file.tests[0].dimensions, 2U);
  EXPECT_EQ((*file.tests[0].local)[1], 2U);
  EXPECT_EQ(file.tests[0].out[0].bytes, BytesOf<int32_t>({1, -2}));
  EXPECT_EQ(file.tests[1].kernel, "second");
  EXPECT_FALSE(file.tests[1].local.has_value());
  EXPECT_EQ(file.tests[1].offset[0], 9U);
  EXPECT_TRUE(file.tests[1].expect_fail);
  EXPECT_EQ(file.tests[1].in[0].kind, PiglitArgument::Kind::kValue);
  EXPECT_EQ(file.tests[1].in[0].bytes, BytesOf<float>({1.5F}));
}

TEST(PiglitFile, ContinuedLinesRepeatRandomNullAndTolerance) {
  const PiglitFile file = MustParse(R"(
[config]
[test]
arg_in:  0 buffer int[4] 0x10 1 \   # continues
                         2 \
                         3
arg_in:  1 buffer float2[2] repeat 5 4
arg_in:  2 buffer uint[3] random
arg_in:  3 buffer uint[1] NULL
arg_out: 4 buffer float[1] 1.25 tolerance 8192 ulp
arg_out: 5 buffer float[1] 1.25 tolerance 0.5
arg_out: 6 buffer short[1] 7 tolerance 2
)");
  const PiglitTest& test = file.tests.at(0);
  EXPECT_EQ(test.in[0].bytes, BytesOf<int32_t>({16, 1, 2, 3}));
  EXPECT_EQ(test.in[1].bytes, BytesOf<float>({5, 4, 5, 4}));
  EXPECT_EQ(test.in[2].bytes.size(), 12U);
  EXPECT_EQ(test.in[3].kind, PiglitArgument::Kind::kNull);
  EXPECT_EQ(test.out[0].tolerance.ulps, 8192U);
  EXPECT_EQ(test.out[0].tolerance.absolute, 0.0);
  EXPECT_EQ(test.out[1].tolerance.absolute, 0.5);
  EXPECT_EQ(test.out[2].tolerance.integer, 2U);
}

TEST(PiglitFile, ImagesAndSamplers) {
  const PiglitFile file = MustParse(R"(
[config]
need_image_support: true
[test]
arg_in: 1 image uchar4 repeat 1 2 3 4 image_type 2d image_width 2 image_height 3 \
          image_channel_order RGBA image_channel_data_type UNSIGNED_INT8
arg_in: 2 sampler normalized_coords 1 addressing_mode CLAMP_TO_EDGE filter_mode LINEAR
)");
  const PiglitArgument& image = file.tests.at(0).in.at(0);
  EXPECT_EQ(image.kind, PiglitArgument::Kind::kImage);
  EXPECT_EQ(image.image.height(), 3U);
  EXPECT_EQ(image.image.type(), v1::CHANNEL_UINT8);
  EXPECT_EQ(image.bytes.size(), ImageBytes(image.image));
  const PiglitArgument& sampler = file.tests.at(0).in.at(1);
  EXPECT_TRUE(sampler.sampler.normalized_coordinates());
  EXPECT_TRUE(sampler.sampler.linear());
  EXPECT_EQ(sampler.sampler.addressing(), v1::ADDRESSING_CLAMP_TO_EDGE);
}

TEST(PiglitFile, WhatCannotBeReadNamesTheLine) {
  for (const char* line : {"[test]\narg_in: 0 buffer int[2] 1", "[test]\narg_in: 0 quaternion 1",
                           "[test]\narg_in: 0 int x", "[test]\ncolour: red", "colour: red",
                           "[section]", "[test]\narg_in: 0 int 1 2", "no colon"}) {
    const absl::Status status =
        ParsePiglitFile("/*!\n[config]\n" + std::string(line) + "\n!*/").status();
    EXPECT_FALSE(status.ok()) << line;
    EXPECT_THAT(std::string(status.message()), HasSubstr("in the line")) << line;
  }
}

TEST(PiglitFile, AFileWithoutABlockHasNoTests) {
  const absl::StatusOr<PiglitFile> file = ParsePiglitFile("kernel void f() {}");
  ASSERT_TRUE(file.ok());
  EXPECT_TRUE(file->tests.empty());
  EXPECT_EQ(file->source, "kernel void f() {}");
}

TEST(PiglitValues, VectorsOfThreeTakeTheSpaceOfFour) {
  const std::vector<std::string> words{"1", "2", "3", "4", "5", "6"};
  const absl::StatusOr<std::string> bytes =
      EncodeValues(*ParseValueType("uchar3"), 2, words, false);
  ASSERT_TRUE(bytes.ok());
  EXPECT_EQ(*bytes, std::string("\1\2\3\0\4\5\6\0", 8));
  // What the unused lane holds does not matter.
  EXPECT_EQ(
      CompareValues(*ParseValueType("uchar3"), *bytes, std::string("\1\2\3\x7f\4\5\6\x7f", 8), {}),
      absl::OkStatus());
}

TEST(PiglitValues, HalfIsRoundedToNearestEven) {
  const std::vector<std::pair<const char*, uint16_t>> cases{{"0", 0x0000},
                                                            {"-0.0", 0x8000},
                                                            {"1", 0x3c00},
                                                            {"-2", 0xc000},
                                                            {"65504", 0x7bff},
                                                            {"65520", 0x7c00},
                                                            {"inf", 0x7c00},
                                                            {"6.103515625e-05", 0x0400},
                                                            {"5.9604644775390625e-08", 0x0001},
                                                            {"2049", 0x6800},
                                                            {"2051", 0x6802},
                                                            {"0.333251953125", 0x3555},
                                                            {"2047.9999", 0x6800}};
  for (const auto& [word, expected] : cases) {
    const std::vector<std::string> words{word};
    const absl::StatusOr<std::string> bytes =
        EncodeValues({ElementType::kHalf, 1}, 1, words, false);
    ASSERT_TRUE(bytes.ok());
    uint16_t bits = 0;
    std::memcpy(&bits, bytes->data(), sizeof(bits));
    EXPECT_EQ(bits, expected) << word;
  }
}

TEST(PiglitValues, ComparingFloats) {
  const ValueType type{ElementType::kFloat, 1};
  const auto compare = [&](float expected, float actual, const Tolerance& tolerance) {
    return CompareValues(type, BytesOf<float>({expected}), BytesOf<float>({actual}), tolerance)
        .ok();
  };
  Tolerance ulps;
  ulps.ulps = 2;
  Tolerance absolute;
  absolute.absolute = 0.1;
  const float next = std::nextafter(std::nextafter(1.0F, 2.0F), 2.0F);
  EXPECT_TRUE(compare(1.0F, next, ulps));
  EXPECT_FALSE(compare(1.0F, std::nextafter(next, 2.0F), ulps));
  EXPECT_FALSE(compare(1.0F, next, {}));
  EXPECT_TRUE(compare(1.0F, 1.09F, absolute));
  EXPECT_FALSE(compare(1.0F, 1.2F, absolute));
  EXPECT_TRUE(compare(NAN, -NAN, {}));
  EXPECT_FALSE(compare(NAN, 1.0F, absolute));
  EXPECT_FALSE(compare(INFINITY, 1.0F, ulps));
  EXPECT_TRUE(compare(-INFINITY, -INFINITY, {}));
  EXPECT_TRUE(compare(0.0F, -0.0F, {}));
}

TEST(PiglitValues, ComparingIntegersAtTheirEnds) {
  Tolerance one;
  one.integer = 1;
  const ValueType type{ElementType::kLong, 1};
  EXPECT_FALSE(
      CompareValues(type, BytesOf<int64_t>({INT64_MIN}), BytesOf<int64_t>({INT64_MAX}), one).ok());
  EXPECT_TRUE(
      CompareValues(type, BytesOf<int64_t>({INT64_MAX}), BytesOf<int64_t>({INT64_MAX - 1}), one)
          .ok());
  const absl::Status status =
      CompareValues({ElementType::kUchar, 1}, std::string("\1\2", 2), std::string("\1\4", 2), one);
  EXPECT_THAT(std::string(status.message()), HasSubstr("element 1 is 4, expected 2"));
}

TEST(PiglitRun, SkipsWhatIsNotForTheDevice) {
  DeviceTraits device;
  device.opencl_c_version = 12;
  device.device_name = "pthread";
  device.extensions = "cl_khr_fp64 cl_khr_int64_base_atomics";
  EXPECT_EQ(ReasonToSkip(MustParse("[config]\nclc_version_min: 12"), device), "");
  EXPECT_THAT(ReasonToSkip(MustParse("[config]\nclc_version_min: 20"), device),
              HasSubstr("needs OpenCL C 20"));
  EXPECT_THAT(ReasonToSkip(MustParse("[config]\nclc_version_max: 10"), device),
              HasSubstr("up to 10"));
  EXPECT_THAT(ReasonToSkip(MustParse("[config]\ndevice_regex: gfx[\\d]*"), device),
              HasSubstr("another device"));
  EXPECT_EQ(ReasonToSkip(MustParse("[config]\nrequire_device_extensions: cl_khr_fp64"), device),
            "");
  EXPECT_EQ(ReasonToSkip(MustParse("[config]\nrequire_device_extensions: cl_khr_fp"), device),
            "needs cl_khr_fp");
}

}  // namespace
}  // namespace kcache::corpus
