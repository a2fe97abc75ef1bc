// Who plays the two sides of a domain test. As root they are two users that nobody else is; as an
// ordinary user, who can be nobody else, every session is a trust domain of its own.
//
// Threads: values.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_CAST_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_CAST_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "tests/support/private_daemon.h"

namespace kcache::domains {

struct Cast {
  std::optional<uid_t> first, second;  // nothing: this process's own user
  std::vector<std::string> flags;      // of the daemon
  std::string words;                   // for people
  std::vector<std::string> excluded;   // what cannot be shown with this cast, and why

  bool two_users() const { return first.has_value(); }
};

Cast ChooseCast();

// Options of a daemon with this cast and these flags, and two PoCL devices.
testing::PrivateDaemonOptions DaemonFor(const Cast& cast, std::vector<std::string> flags);

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_CAST_H_
