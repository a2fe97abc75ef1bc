// G1, grace: when a host gives a kernel back, each session that was ever granted a lease on it has given it
// back, has ended, has acknowledged, or has had its grace. A holder that is said to have acknowledged must
// have run its listener by then, by its own record.

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {
namespace {

// A client's clock and its daemon's are the same, but the daemon's timers count whole milliseconds.
constexpr uint64_t kTimerTolerance = 2 * kMillisecond;

// When the listeners of a client process had returned for BEFORE, by operation; and while which sessions it
// listened.
struct Hearing {
  std::map<std::string, uint64_t> heard;
  std::map<SessionId, std::pair<uint64_t, uint64_t>> listening;  // from, until
  std::vector<uint64_t> missed;                                  // told later that it was not told
};

Hearing ReadHearing(const Client& client) {
  Hearing hearing;
  for (const Record& record : client.file->records) {
    const SessionId session = record.Number("session");
    if (record.kind == "heard" && record.Text("phase") == "before") {
      hearing.heard.try_emplace(record.Text("operation"), record.time);
    } else if (record.kind == "listening") {
      hearing.listening[session] = {record.time, kNever};
    } else if (record.kind == "closing" && hearing.listening.contains(session)) {
      hearing.listening[session].second = record.time;
    } else if (record.kind == "event" && record.Text("cause") == "missed") {
      hearing.missed.push_back(record.time);
    }
  }
  return hearing;
}

class Checker {
 public:
  Checker(const Run& run, Verdict* verdict) : verdict_(verdict) {
    for (const Client& client : run.clients()) {
      hearings_.emplace(client.pid, ReadHearing(client));
    }
  }

  void Check(const Host& host) {
    std::map<SlotId, std::vector<const Lease*>> leases;
    for (const Lease& lease : host.daemon->leases) {
      if (lease.context == host.context) leases[lease.slot].push_back(&lease);
    }
    for (const Record& record : host.file->records) {
      if (record.kind != "release") continue;
      auto slot = host.slot_of_kernel.find(record.Number("kernel"));
      if (slot == host.slot_of_kernel.end()) continue;
      for (const Lease* lease : leases[slot->second]) {
        ++verdict_->facts;
        CheckLease(host, *lease, record.time);
      }
    }
  }

 private:
  void CheckLease(const Host& host, const Lease& lease, uint64_t released) {
    if (lease.released <= released) return;
    const Daemon& daemon = *host.daemon;
    auto session = daemon.sessions.find(lease.session);
    if (session != daemon.sessions.end() && session->second.ended <= released) return;
    std::string why = "nothing is recorded that would allow it";
    auto settled = daemon.settled.find({lease.context, lease.session});
    if (settled != daemon.settled.end()) {
      for (const Settled& one : settled->second) {
        if (one.time > released) {
          why = absl::StrCat("it ", one.how, " only ", (one.time - released) / 1000, " us later");
          continue;
        }
        const Drain* drain = daemon.FindDrain(one.operation, lease.context);
        if (drain == nullptr || !drain->Covers(lease.context, lease.slot)) continue;
        if (one.how == "grace-over") {
          const uint64_t due = drain->started + drain->grace_ms * kMillisecond;
          if (one.time + kTimerTolerance >= due) return;
          why = absl::StrCat("its grace ended ", (due - one.time) / 1000, " us too early");
          continue;
        }
        if (one.how == "acked" && !HadHeard(daemon, lease, *drain, released)) {
          why = "it is said to have acknowledged, but its listener had not returned";
          continue;
        }
        return;
      }
    }
    verdict_->violations.push_back(absl::StrCat(
        host.file->name, " (context ", lease.context, "): slot ", lease.slot.first, ".",
        lease.slot.second, " was released at ", released, " under session ", lease.session, ": ",
        why));
  }

  // By the holder's own record, where it keeps one.
  bool HadHeard(const Daemon& daemon, const Lease& lease, const Drain& drain,
                uint64_t released) const {
    auto session = daemon.sessions.find(lease.session);
    if (session == daemon.sessions.end()) return true;
    auto hearing = hearings_.find(session->second.pid);
    if (hearing == hearings_.end()) return true;
    auto listening = hearing->second.listening.find(lease.session);
    if (listening == hearing->second.listening.end() ||
        listening->second.first > drain.started || listening->second.second <= released) {
      return true;  // it had no listener at that time
    }
    for (const uint64_t missed : hearing->second.missed) {
      if (missed >= drain.started) return true;
    }
    auto heard = hearing->second.heard.find(drain.operation);
    return heard != hearing->second.heard.end() && heard->second <= released;
  }

  Verdict* const verdict_;
  std::map<uint64_t, Hearing> hearings_;  // by pid
};

}  // namespace

Verdict ReleaseWaitsForHolders(const Run& run) {
  Verdict verdict;
  Checker checker(run, &verdict);
  for (const Host& host : run.hosts()) {
    if (host.daemon != nullptr) checker.Check(host);
  }
  return verdict;
}

}  // namespace kcache::chaos
