#include "tests/chaos/domains/replays.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "kcache/v1/types.pb.h"
#include "tests/chaos/domains/player.h"
#include "tests/chaos/domains/watcher.h"

namespace kcache::domains {
namespace {

// Which event tells an operator of it.
const char* EventOf(const std::string& what) {
  if (what == "session" || what == "credentials") return "foreign-session";
  if (what == "digest") return "source-not-shown";
  if (what == "artifact-key") return "foreign-artifact";
  return "refused-by-host";
}

bool IsRefusal(const std::string& reason) {
  v1::ErrorReason parsed;
  return v1::ErrorReason_Parse(reason, &parsed) && parsed != v1::ERROR_REASON_UNSPECIFIED;
}

}  // namespace

absl::StatusOr<ReplayReport> ReplaySecrets(const Cast& cast, int rounds) {
  // Players do not renew their sessions, and the daemon need not wait long for a source that nobody
  // is going to show.
  auto daemon = testing::PrivateDaemon::Start(
      DaemonFor(cast, {"--limits.session-ttl=1h", "--limits.upload-stall=20ms"}));
  if (!daemon.ok()) return daemon.status();
  ReplayReport report;
  {
    Watcher watcher((*daemon)->admin_socket());
    auto victim = Player::Start(cast.first, {"victim", (*daemon)->socket(), "OpenCL:0"});
    if (!victim.ok()) return victim.status();
    auto stranger = Player::Start(
        cast.second, {"stranger", (*daemon)->socket(), "OpenCL:0", std::to_string(rounds)});
    if (!stranger.ok()) return stranger.status();
    for (const std::string& line : (*victim)->prologue()) (*stranger)->Tell(line);
    (*stranger)->Tell("go");
    std::map<std::string, uint64_t> expected;
    for (;;) {
      auto line = (*stranger)->Await("");
      if (!line.ok()) return line.status();
      if (*line == "done") break;
      std::istringstream in(*line);
      std::string tried, what, reason;
      in >> tried >> what >> reason;
      auto kind = std::find_if(report.kinds.begin(), report.kinds.end(),
                               [&](const ReplayKind& one) { return one.what == what; });
      if (kind == report.kinds.end()) {
        kind = report.kinds.insert(kind, {.what = what, .reason = "", .event = EventOf(what)});
      }
      ++kind->tried;
      ++report.tried;
      kind->reason = reason;
      if (IsRefusal(reason)) {
        ++kind->refused;
        ++report.refused;
      } else {
        kind->reason = *line;
      }
      ++expected[kind->event];
    }
    for (const auto& [event, count] : expected) {
      // Too few are reported, not waited for again.
      watcher.AwaitEvents(event, count).IgnoreError();
      report.logged += static_cast<int>(std::min(watcher.Heard(event), count));
    }
    (*victim)->Tell("is everything fine?");
    report.victim_is_fine = (*victim)->Await("fine").ok();
    for (Player* player : {victim->get(), stranger->get()}) {
      if (absl::Status ended = player->Finish(); !ended.ok()) return ended;
    }
  }
  if (absl::Status stopped = (*daemon)->Stop(); !stopped.ok()) return stopped;
  return report;
}

}  // namespace kcache::domains
