#include "contract/strings.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using ::testing::HasSubstr;

TEST(Utf8, AcceptsWellFormedText) {
  for (const std::string text :
       {"", "plain", "\x7f", "gr\xc3\xbc\xc3\x9f", "\xe2\x82\xac", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(IsValidUtf8(text)) << ToHex(text);
  }
  EXPECT_TRUE(IsValidUtf8(std::string_view("a\0b", 3)));
}

TEST(Utf8, RejectsIllFormedText) {
  for (const std::string text :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x80\x80", "\xe0\x9f\xbf",
        "\xed\xa0\x80", "\xed\xbf\xbf", "\xe2\x82", "\xe2\x82\x41", "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xf0\x90\x80", "\xf0\x90\x41\x80", "\xff",
        "ok\xfe"}) {
    EXPECT_FALSE(IsValidUtf8(text)) << ToHex(text);
  }
}

TEST(Utf8, ReplacesWhatIsIllFormed) {
  EXPECT_EQ(ToValidUtf8("a\xff\xe2\x82\xac\xe2\x82z"),
            "a\xef\xbf\xbd\xe2\x82\xac\xef\xbf\xbd\xef\xbf\xbdz");
  EXPECT_EQ(ToValidUtf8("gr\xc3\xbcn"), "gr\xc3\xbcn");
}

TEST(Utf8, PrefixEndsBetweenCharacters) {
  const std::string text =
      "a\xe2\x82\xac"
      "b";
  EXPECT_EQ(Utf8Prefix(text, 0), "");
  EXPECT_EQ(Utf8Prefix(text, 1), "a");
  EXPECT_EQ(Utf8Prefix(text, 2), "a");
  EXPECT_EQ(Utf8Prefix(text, 3), "a");
  EXPECT_EQ(Utf8Prefix(text, 4), "a\xe2\x82\xac");
  EXPECT_EQ(Utf8Prefix(text, 5), text);
  EXPECT_EQ(Utf8Prefix(text, 99), text);
}

TEST(Hex, RoundTripsEveryByte) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  const std::string hex = ToHex(bytes);
  EXPECT_EQ(hex.size(), 512u);
  EXPECT_EQ(hex.substr(0, 6), "000102");
  EXPECT_EQ(hex.substr(506), "fdfeff");
  ASSERT_TRUE(FromHex(hex).ok());
  EXPECT_EQ(*FromHex(hex), bytes);
  EXPECT_EQ(*FromHex("AbCd"), "\xab\xcd");
  EXPECT_EQ(*FromHex(""), "");
}

TEST(Hex, NamesWhatIsWrong) {
  EXPECT_THAT(std::string(FromHex("abc").status().message()), HasSubstr("odd length, 3"));
  EXPECT_THAT(std::string(FromHex("ab0g").status().message()), HasSubstr("position 3"));
  EXPECT_THAT(std::string(FromHex("abx0").status().message()), HasSubstr("position 2"));
}

TEST(Quoted, EscapesAndCuts) {
  EXPECT_EQ(Quoted("a\"b\\\n\xff"), "\"a\\\"b\\\\\\x0a\\xff\"");
  EXPECT_EQ(Quoted("abcdef", 3), "\"abc\"… (6 bytes)");
  EXPECT_EQ(Quoted("abc", 3), "\"abc\"");
}

}  // namespace
}  // namespace kcache
