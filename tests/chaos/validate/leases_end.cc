// No lease outlives its session: when a session has ended, every lease of it has been given back or its
// context is being released, and once a host has fenced the session it admits nothing of it. And a client
// that was killed is noticed.

#include <algorithm>
#include <map>
#include <set>

#include "absl/strings/str_cat.h"
#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {
namespace {

// Between the end of a process and that of its session, on a loaded machine and a daemon that is stopped.
constexpr uint64_t kNoticing = 10000 * kMillisecond;

// A drain that is over has given back what it covers, and so has a context that has ended.
bool Drained(const Daemon& daemon, const Lease& lease, uint64_t until) {
  auto context = daemon.contexts.find(lease.context);
  if (context != daemon.contexts.end() && context->second.ended <= until) return true;
  return std::any_of(daemon.drains.begin(), daemon.drains.end(), [&](const Drain& drain) {
    return drain.Covers(lease.context, lease.slot) && drain.done <= until;
  });
}

void CheckDaemon(const Daemon& daemon, Verdict* verdict) {
  for (const Lease& lease : daemon.leases) {
    auto session = daemon.sessions.find(lease.session);
    if (session == daemon.sessions.end()) {
      verdict->violations.push_back(
          absl::StrCat(daemon.file->name, ": a lease of session ", lease.session,
                       ", which was never opened"));
      continue;
    }
    const uint64_t ended = session->second.ended;
    if (ended == kNever) continue;
    ++verdict->facts;
    if (lease.granted > ended) {
      verdict->violations.push_back(absl::StrCat(daemon.file->name, ": slot ", lease.slot.first, ".",
                                                 lease.slot.second, " was granted to session ",
                                                 lease.session, " after its end"));
    }
    // Given back in the same step; the record is a few lines further.
    const bool over = lease.released != kNever || Drained(daemon, lease, ended + kMillisecond);
    if (!over && daemon.last > ended + 100 * kMillisecond) {
      verdict->violations.push_back(absl::StrCat(
          daemon.file->name, ": session ", lease.session, " ended at ", ended, ", its lease on slot ",
          lease.slot.first, ".", lease.slot.second, " of context ", lease.context, " did not"));
    }
  }
}

void CheckHost(const Host& host, Verdict* verdict) {
  std::set<SessionId> fenced;
  for (const Record& record : host.file->records) {
    const SessionId session = record.Number("session");
    if (record.kind == "fenced" && session != 0) {
      ++verdict->facts;
      fenced.insert(session);
    } else if (record.kind == "admitted" && fenced.contains(session)) {
      verdict->violations.push_back(absl::StrCat(host.file->name, ": a launch of session ", session,
                                                 " was admitted after its fence, at ", record.time));
    }
  }
}

void CheckKilled(const Run& run, Verdict* verdict) {
  for (const Record& record : run.controller()) {
    if (record.kind != "client-killed") continue;
    for (const Daemon& daemon : run.daemons()) {
      for (const auto& [id, session] : daemon.sessions) {
        if (session.pid != record.Number("pid") || session.opened > record.time) continue;
        if (session.ended <= record.time + kNoticing) {
          ++verdict->facts;
        } else if (daemon.last <= record.time + kNoticing) {
          ++verdict->excused;  // the daemon was not there that long
        } else {
          verdict->violations.push_back(
              absl::StrCat(daemon.file->name, ": process ", session.pid, " was killed at ",
                           record.time, ", its session ", id, " did not end"));
        }
      }
    }
  }
}

}  // namespace

Verdict LeasesEndWithTheirSession(const Run& run) {
  Verdict verdict;
  for (const Daemon& daemon : run.daemons()) CheckDaemon(daemon, &verdict);
  for (const Host& host : run.hosts()) CheckHost(host, &verdict);
  CheckKilled(run, &verdict);
  return verdict;
}

}  // namespace kcache::chaos
