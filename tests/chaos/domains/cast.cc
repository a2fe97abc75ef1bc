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
    const char* why = ": there is one uid only";
    cast.excluded = {
        absl::StrCat("clients of two uids while a host is killed", why, "; of four sessions instead"),
        absl::StrCat("a peer of another uid, whom a host refuses by his uid alone", why,
                     "; refused by token, session and process instead"),
        absl::StrCat("a native kernel against the host of another uid", why,
                     "; against the host of another session, which namespaces and the system call "
                     "filter keep apart"),
        "compiles as a user of their own: that takes CAP_SETUID"};
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
