#include "contract/device_name.h"

#include <string>
#include <unordered_set>

#include "absl/hash/hash_testing.h"
#include "contract/error_reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using ::testing::HasSubstr;

std::string MessageOf(const absl::Status& status) { return std::string(status.message()); }

TEST(DeviceName, ParsesFamilyAndVariant) {
  const auto plain = DeviceName::Parse("OpenCL:0");
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(plain->framework, "OpenCL");
  EXPECT_EQ(plain->family(), "OpenCL");
  EXPECT_EQ(plain->variant(), "");
  EXPECT_EQ(plain->index, 0u);

  const auto refined = DeviceName::Parse("CUDA/PTX:4294967295");
  ASSERT_TRUE(refined.ok()) << refined.status();
  EXPECT_EQ(refined->family(), "CUDA");
  EXPECT_EQ(refined->variant(), "PTX");
  EXPECT_EQ(refined->index, 4294967295u);
}

TEST(DeviceName, PrintsWhatItParses) {
  for (const std::string text : {"CUDA:0", "CUDA/PTX:17", "x-y_z.1:3"}) {
    const auto device = DeviceName::Parse(text);
    ASSERT_TRUE(device.ok()) << device.status();
    EXPECT_EQ(device->ToString(), text);
  }
}

TEST(DeviceName, RefusalsNameTextAndRule) {
  const struct {
    std::string text;
    std::string expected;
  } cases[] = {
      {"", "no ':'"},
      {"CUDA", "no ':'"},
      {":0", "family is empty"},
      {"CUDA:", "not a decimal number"},
      {"CUDA:x", "not a decimal number"},
      {"CUDA:1x", "not a decimal number"},
      {"CUDA:-1", "not a decimal number"},
      {"CUDA:+1", "not a decimal number"},
      {"CUDA: 1", "not a decimal number"},
      {"CUDA:01", "leading zero"},
      {"CUDA:4294967296", "beyond 4294967295"},
      {"CUDA/:0", "variant is empty"},
      {"/PTX:0", "family is empty"},
      {"CUDA/PTX/x:0", "variant contains \"/\""},
      {"CU DA:0", "contains \" \""},
      {"1CUDA:0", "does not start with a letter"},
      {"CUDA:0:1", "contains \":\""},
      {"gr\xc3\xbcn:0", "contains \"\\xc3\""},
      {std::string(33, 'a') + ":0", "has 33 bytes, the limit is 32"},
      {std::string("CUDA\0:0", 7), "contains \"\\x00\""},
  };
  for (const auto& test : cases) {
    const auto device = DeviceName::Parse(test.text);
    ASSERT_FALSE(device.ok()) << test.text;
    EXPECT_EQ(ReasonOf(device.status()), v1::BAD_REQUEST) << device.status();
    EXPECT_THAT(MessageOf(device.status()), HasSubstr(test.expected));
  }
}

TEST(DeviceName, TextThatIsNotUtf8HasAReasonOfItsOwn) {
  const auto device = DeviceName::Parse(
      "CU\xff"
      "DA:0");
  EXPECT_EQ(ReasonOf(device.status()), v1::INVALID_UTF8);
  EXPECT_THAT(MessageOf(device.status()), HasSubstr("CU\\xffDA:0"));
  EXPECT_EQ(ReasonOf(DeviceName::ValidateFamily("\xc0\x80")), v1::INVALID_UTF8);
}

TEST(DeviceName, LongestFrameworkIsAccepted) {
  const std::string word(DeviceName::kMaxWordBytes, 'a');
  EXPECT_TRUE(DeviceName::Parse(word + "/" + word + ":1").ok());
}

TEST(DeviceName, ConvertsToAndFromTheWire) {
  const DeviceName device{"CUDA/PTX", 3};
  const auto back = DeviceName::FromProto(device.ToProto());
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, device);

  v1::DeviceRef bad;
  bad.set_framework("not a framework");
  EXPECT_EQ(ReasonOf(DeviceName::FromProto(bad).status()), v1::BAD_REQUEST);
  EXPECT_FALSE(DeviceName::FromProto(v1::DeviceRef()).ok());
}

TEST(DeviceName, AFamilyHasNoVariant) {
  EXPECT_TRUE(DeviceName::ValidateFamily("CUDA").ok());
  EXPECT_FALSE(DeviceName::ValidateFamily("CUDA/PTX").ok());
  EXPECT_FALSE(DeviceName::ValidateFamily("").ok());
}

// G6: on the pair (family, index), variants included, never on the index alone.
TEST(DeviceName, G6MatchesOnFamilyAndIndex) {
  const DeviceName refined{"CUDA/PTX", 1};
  EXPECT_TRUE(refined.Matches("CUDA", 1));
  EXPECT_FALSE(refined.Matches("CUDA", 0));
  EXPECT_FALSE(refined.Matches("HIP", 1));
  EXPECT_FALSE(refined.Matches("CUDA/PTX", 1)) << "events name families";
  EXPECT_FALSE(refined.Matches("CUD", 1));
  const DeviceName plain{"CUDA", 1};
  EXPECT_TRUE(plain.Matches("CUDA", 1));
  EXPECT_FALSE((DeviceName{"CUDAX", 1}.Matches("CUDA", 1)));
}

TEST(DeviceName, G6ScopesWidenStepByStep) {
  const DeviceName device{"CUDA/PTX", 1};
  EXPECT_TRUE(device.InScope("", std::nullopt));
  EXPECT_TRUE(device.InScope("CUDA", std::nullopt));
  EXPECT_TRUE(device.InScope("CUDA", 1));
  EXPECT_FALSE(device.InScope("CUDA", 0));
  EXPECT_FALSE(device.InScope("HIP", std::nullopt));
}

TEST(DeviceName, HashAgreesWithEquality) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {DeviceName{"CUDA", 0}, DeviceName{"CUDA", 1}, DeviceName{"CUDA/PTX", 0},
       DeviceName{"HIP", 0}, DeviceName{"", 0}}));
  EXPECT_LT((DeviceName{"CUDA", 0}), (DeviceName{"CUDA", 1}));
}

}  // namespace
}  // namespace kcache
