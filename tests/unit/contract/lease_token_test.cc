#include "contract/lease_token.h"

#include <string>
#include <thread>
#include <vector>

#include "contract/error_reason.h"
#include "contract/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace kcache {
namespace {

using ::testing::HasSubstr;

const std::string kKey(kTokenKeyBytes, 'k');
const std::string kInstance(kInstanceBytes, 'i');

TokenAuthority Authority(std::string_view key = kKey, std::string_view instance = kInstance) {
  auto authority = TokenAuthority::Create(key, instance);
  EXPECT_TRUE(authority.ok()) << authority.status();
  return *std::move(authority);
}

LeaseIdentity Lease() { return {.session = {1, 2, 3}, .slot = 4, .incarnation = 5}; }

// Computed with Python's hmac module from the layout that lease_token.h documents.
TEST(LeaseToken, HasTheDocumentedLayout) {
  EXPECT_EQ(ToHex(Authority().SignLease(Lease()).view()), "3a0c413e20fc8fd4300fd03bd184cc62");
  EXPECT_EQ(ToHex(Authority().SignSession({1, 2, 3}).view()), "76abbeb28dd140f1cba535c7167f6784");
}

TEST(LeaseToken, VerifiesItsOwn) {
  const TokenAuthority authority = Authority();
  EXPECT_TRUE(authority.VerifyLease(Lease(), authority.SignLease(Lease()).view()));
  EXPECT_TRUE(authority.VerifySession({1, 2, 3}, authority.SignSession({1, 2, 3}).view()));
  // Daemon and host each have an authority of their own.
  EXPECT_TRUE(Authority().VerifyLease(Lease(), authority.SignLease(Lease()).view()));
}

TEST(LeaseToken, G7EveryFieldIsBound) {
  const TokenAuthority authority = Authority();
  const std::string token = authority.SignLease(Lease()).str();
  LeaseIdentity changed[6];
  for (LeaseIdentity& lease : changed) lease = Lease();
  ++changed[0].session.context_id;
  ++changed[1].session.generation;
  ++changed[2].session.session_id;
  ++changed[3].slot;
  ++changed[4].incarnation;
  std::swap(changed[5].session.context_id, changed[5].session.generation);
  for (const LeaseIdentity& lease : changed) EXPECT_FALSE(authority.VerifyLease(lease, token));
  EXPECT_FALSE(Authority(std::string(kTokenKeyBytes, 'x')).VerifyLease(Lease(), token));
  EXPECT_FALSE(Authority(kKey, std::string(kInstanceBytes, 'x')).VerifyLease(Lease(), token));
}

TEST(LeaseToken, EveryBitOfTheTokenCounts) {
  const TokenAuthority authority = Authority();
  const std::string token = authority.SignLease(Lease()).str();
  for (size_t bit = 0; bit < kTokenBytes * 8; ++bit) {
    std::string forged = token;
    forged[bit / 8] = static_cast<char>(forged[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(authority.VerifyLease(Lease(), forged)) << bit;
  }
}

TEST(LeaseToken, OtherLengthsAreRefused) {
  const TokenAuthority authority = Authority();
  const std::string token = authority.SignLease(Lease()).str();
  EXPECT_FALSE(authority.VerifyLease(Lease(), ""));
  EXPECT_FALSE(authority.VerifyLease(Lease(), token.substr(0, 15)));
  EXPECT_FALSE(authority.VerifyLease(Lease(), token + "x"));
}

TEST(LeaseToken, ASessionTokenIsNoLease) {
  const TokenAuthority authority = Authority();
  const LeaseIdentity lease{.session = {1, 2, 3}, .slot = 0, .incarnation = 1};
  EXPECT_FALSE(authority.VerifyLease(lease, authority.SignSession(lease.session).view()));
  EXPECT_FALSE(authority.VerifySession(lease.session, authority.SignLease(lease).view()));
}

TEST(LeaseToken, ZeroIsNeverValid) {
  const TokenAuthority authority = Authority();
  LeaseIdentity zeroed[4];
  for (LeaseIdentity& lease : zeroed) lease = Lease();
  zeroed[0].session.context_id = 0;
  zeroed[1].session.generation = 0;
  zeroed[2].session.session_id = 0;
  zeroed[3].incarnation = 0;
  for (const LeaseIdentity& lease : zeroed) {
    EXPECT_FALSE(authority.VerifyLease(lease, authority.SignLease(lease).view()));
  }
  EXPECT_FALSE(authority.VerifySession({0, 1, 1}, authority.SignSession({0, 1, 1}).view()));
  // Slot 0 is an ordinary slot.
  const LeaseIdentity first{.session = {1, 2, 3}, .slot = 0, .incarnation = 1};
  EXPECT_TRUE(authority.VerifyLease(first, authority.SignLease(first).view()));
}

TEST(LeaseToken, KeysAndInstancesHaveFixedSizes) {
  const auto short_key = TokenAuthority::Create("short", kInstance);
  EXPECT_EQ(ReasonOf(short_key.status()), v1::BAD_REQUEST);
  EXPECT_THAT(std::string(short_key.status().message()), HasSubstr("5 bytes, not 32"));
  EXPECT_FALSE(TokenAuthority::Create(kKey, "short").ok());
  EXPECT_FALSE(TokenAuthority::Create("", "").ok());
}

TEST(LeaseToken, ManyThreadsShareOneAuthority) {
  const TokenAuthority authority = Authority();
  const std::string token = authority.SignLease(Lease()).str();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        EXPECT_TRUE(authority.VerifyLease(Lease(), token));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ConstantTimeEquals, ComparesContent) {
  EXPECT_TRUE(ConstantTimeEquals("", ""));
  EXPECT_TRUE(ConstantTimeEquals("secret", "secret"));
  EXPECT_FALSE(ConstantTimeEquals("secret", "secreT"));
  EXPECT_FALSE(ConstantTimeEquals("secret", "secre"));
}

}  // namespace
}  // namespace kcache
