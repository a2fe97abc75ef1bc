// Every operation ends within its bound (design, section 7): grace, fence, finish, and two kills that are
// verified; a clear counts from when it is its turn. Time that the daemon itself was stopped is not its own.
// And no client hangs: each ends when asked.

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {
namespace {

// How long the daemon with this history was stopped in [from, until].
uint64_t Stopped(const Run& run, const Daemon& daemon, uint64_t from, uint64_t until) {
  uint64_t total = 0, since = 0;
  for (const Record& record : run.controller()) {
    if (record.time < daemon.first || record.time > until) continue;
    if (record.kind == "daemon-stopped") since = record.time;
    if (record.kind == "daemon-continued" && since != 0) {
      if (record.time > from) total += record.time - std::max(since, from);
      since = 0;
    }
  }
  return total;
}

}  // namespace

Verdict OperationsEndInTime(const Run& run) {
  Verdict verdict;
  const uint64_t bound = run.Setting("operation_bound_ms") * kMillisecond;
  for (const Daemon& daemon : run.daemons()) {
    for (const auto& [id, operation] : daemon.operations) {
      const bool clear = operation.kind == "clear";
      const uint64_t from = clear ? operation.running : operation.started;
      if (from == kNever) {
        // It was refused, or its turn had not come when the daemon ended.
        ++(operation.ended != kNever ? verdict.facts : verdict.excused);
        continue;
      }
      const uint64_t until = std::min(operation.ended, daemon.last);
      const uint64_t took = until - from;
      const uint64_t own = took - std::min(took, Stopped(run, daemon, from, until));
      if (own <= bound) {
        ++(operation.ended != kNever ? verdict.facts : verdict.excused);
        continue;
      }
      verdict.violations.push_back(absl::StrCat(
          daemon.file->name, ": ", operation.kind, " ", operation.scope, " (", id, ") ",
          operation.ended == kNever ? "has not ended after " : "took ", own / kMillisecond,
          " ms; the bound is ", bound / kMillisecond));
    }
  }
  for (const Record& record : run.controller()) {
    if (record.kind == "client-ended") ++verdict.facts;
    if (record.kind != "client-hung") continue;
    verdict.violations.push_back(absl::StrCat("client ", record.Text("name"), " (pid ",
                                              record.Number("pid"), ") did not end when asked"));
  }
  return verdict;
}

}  // namespace kcache::chaos
