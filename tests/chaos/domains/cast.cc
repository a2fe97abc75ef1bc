#include "tests/chaos/domains/cast.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace kcache::domains {
namespace {

// Above what distributions give to people and services, below what containers and systemd use.
constexpr uid_t kFirst = 60101;
constexpr uid_t kSecond = 60102;

}  // namespace

Cast ChooseCast() {
  Cast cast;
  if (geteuid() == 0) {
    cast.first = kFirst;
    cast.second = kSecond;
    cast.words = absl::StrCat("as root: two users, uids ", kFirst, " and ", kSecond);
  } else {
    cast.flags.emplace_back("--isolation.domain=session");
    cast.words = absl::StrCat("as uid ", geteuid(),
                              ", who cannot be two users: every session is a trust domain");
  }
  return cast;
}

testing::PrivateDaemonOptions DaemonFor(const Cast& cast, std::vector<std::string> flags) {
  testing::PrivateDaemonOptions options;
  options.flags = cast.flags;
  options.flags.insert(options.flags.end(), flags.begin(), flags.end());
  options.flags.emplace_back("--backends.environment=POCL_DEVICES");
  options.environment = {{"POCL_DEVICES", "pthread pthread"}};
  return options;
}

}  // namespace kcache::domains
