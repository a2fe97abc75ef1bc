#include "contract/digest.h"

#include <string>

#include "absl/hash/hash_testing.h"
#include "contract/error_reason.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using ::testing::HasSubstr;

// FIPS 180-4 example values.
constexpr char kAbc[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
constexpr char kEmpty[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

TEST(Digest, IsSha256) {
  EXPECT_EQ(Digest::Of("abc").hex(), kAbc);
  EXPECT_EQ(Digest::Of("").hex(), kEmpty);
  EXPECT_EQ(Digest::Of("abc").short_hex(), "ba7816bf8f01");
}

TEST(Digest, RoundTripsAsBytesAndHex) {
  const Digest digest = Digest::Of("abc");
  EXPECT_EQ(*Digest::FromBytes(digest.view()), digest);
  EXPECT_EQ(*Digest::FromHex(digest.hex()), digest);
}

TEST(Digest, RefusesOtherSizes) {
  const auto short_one = Digest::FromBytes(std::string(31, 'x'));
  EXPECT_EQ(ReasonOf(short_one.status()), v1::BAD_REQUEST);
  EXPECT_THAT(std::string(short_one.status().message()), HasSubstr("32 bytes, not 31"));
  EXPECT_FALSE(Digest::FromBytes(std::string(33, 'x')).ok());
  EXPECT_EQ(ReasonOf(Digest::FromHex("zz").status()), v1::BAD_REQUEST);
  EXPECT_FALSE(Digest::FromHex("00ff").ok());
}

TEST(Digest, ZeroMeansNone) {
  EXPECT_TRUE(Digest().empty());
  EXPECT_FALSE(Digest::Of("").empty());
}

TEST(Digest, HashAgreesWithEquality) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {Digest(), Digest::Of("a"), Digest::Of("b"), Digest::Of("")}));
}

TEST(FieldHasher, FieldsDoNotCollideByConcatenation) {
  const auto two = [](std::string_view a, std::string_view b) {
    return FieldHasher("d").Field(a).Field(b).Finish();
  };
  EXPECT_NE(two("a", "bc"), two("ab", "c"));
  EXPECT_NE(two("", "abc"), two("abc", ""));
  EXPECT_NE(FieldHasher("d").Field("a").Finish(), FieldHasher("da").Finish());
  EXPECT_NE(FieldHasher("d").Field("").Finish(), FieldHasher("d").Finish());
  EXPECT_NE(FieldHasher("d").Integer(1).Finish(), FieldHasher("d").Field("1").Finish());
  EXPECT_NE(FieldHasher("d").Field("a").Finish(), FieldHasher("e").Field("a").Finish());
}

}  // namespace
}  // namespace kcache
