// Each test of this folder runs twice: as root, and as an ordinary user. A test that is root runs
// itself again as nobody for the second; one that is not root skips the first.
//
// Threads: one.

#ifndef KCACHE_TESTS_INTEGRATION_DOMAINS_USERS_H_
#define KCACHE_TESTS_INTEGRATION_DOMAINS_USERS_H_

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace kcache::domains {

enum class As { kRoot, kOrdinaryUser };

inline std::string NameOf(As user) { return user == As::kRoot ? "AsRoot" : "AsAnOrdinaryUser"; }

inline void PrintTo(As user, std::ostream* out) { *out << NameOf(user); }

class AsUser : public ::testing::TestWithParam<As> {
 protected:
  // Whether this process plays the test itself. Else it has been played by another one, or is skipped.
  bool Plays();
};

#define KCACHE_AS_BOTH_USERS(suite)                                                              \
  INSTANTIATE_TEST_SUITE_P(Users, suite, ::testing::Values(As::kRoot, As::kOrdinaryUser), \
                           [](const auto& info) { return ::kcache::domains::NameOf(info.param); })

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_INTEGRATION_DOMAINS_USERS_H_
