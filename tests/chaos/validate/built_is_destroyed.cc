// destroyed + retained = built (G3, G12): whatever a host's driver has made is given back once, never twice, and
// nothing is given back that was not made; a context that is closed has kept nothing. The daemon's own
// counts say the same of handles.

#include <map>

#include "absl/strings/str_cat.h"
#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {
namespace {

struct Kind {
  std::string_view made, destroyed, name;
};

constexpr Kind kKinds[] = {{"load", "unload", "module"},
                           {"resolve", "release", "kernel"},
                           {"allocate", "free", "memory"},
                           {"queue", "destroy-queue", "queue"}};

void CheckHost(const Host& host, const Kind& kind, Verdict* verdict) {
  std::map<uint64_t, int> live;  // handle -> 1, or 0 once it is gone
  auto violation = [&](uint64_t handle, std::string_view what) {
    verdict->violations.push_back(absl::StrCat(host.file->name, ": ", std::string(kind.name), " ",
                                               handle, " ", std::string(what)));
  };
  for (const Record& record : host.file->records) {
    const uint64_t handle = record.Number(kind.name);
    if (record.kind == kind.made) {
      ++verdict->facts;
      if (!live.try_emplace(handle, 1).second) violation(handle, "was made twice");
    } else if (record.kind == kind.destroyed) {
      auto found = live.find(handle);
      if (found == live.end()) {
        violation(handle, "was given back and never made");
      } else if (found->second-- != 1) {
        violation(handle, "was given back twice");
      }
    } else if (record.kind == "close") {
      for (const auto& [one, left] : live) {
        if (left == 1) violation(one, "was still there when its context was closed");
      }
    }
  }
}

}  // namespace

Verdict BuiltIsDestroyedOrRetained(const Run& run) {
  Verdict verdict;
  for (const Host& host : run.hosts()) {
    for (const Kind& kind : kKinds) CheckHost(host, kind, &verdict);
  }
  for (const Record& record : run.controller()) {
    if (record.kind != "status") continue;
    ++verdict.facts;
    const uint64_t built = record.Number("built"), destroyed = record.Number("destroyed"),
                   retained = record.Number("retained");
    if (destroyed + retained != built) {
      verdict.violations.push_back(absl::StrCat("the daemon counts ", built, " handles built, ",
                                                destroyed, " destroyed and ", retained,
                                                " retained, at ", record.time));
    }
  }
  return verdict;
}

}  // namespace kcache::chaos
