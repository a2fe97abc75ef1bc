// Nothing is left behind after the stop, by what the controller found: processes, sockets, directories of
// processes, memory files. And nobody crashed who was not made to.

#include "absl/strings/str_cat.h"
#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {

Verdict NothingIsLeftBehind(const Run& run) {
  Verdict verdict;
  for (const Record& record : run.controller()) {
    if (record.kind == "looked-for") ++verdict.facts;
    if (record.kind == "left") {
      verdict.violations.push_back(
          absl::StrCat("left behind: ", record.Text("what"), " ", record.Text("name")));
    }
  }
  return verdict;
}

Verdict NobodyCrashes(const Run& run) {
  Verdict verdict;
  for (const Record& record : run.controller()) {
    const bool ended = record.kind == "client-ended" || record.kind == "daemon-ended";
    if (!ended) continue;
    ++verdict.facts;
    if (record.Text("unexpected").empty()) continue;
    verdict.violations.push_back(absl::StrCat(record.kind, ", pid ", record.Number("pid"), ": ",
                                              record.Text("unexpected")));
  }
  return verdict;
}

}  // namespace kcache::chaos
