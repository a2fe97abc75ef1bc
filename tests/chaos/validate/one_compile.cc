// G4: for each artifact key, in each epoch of the artifacts and each life of a daemon, at most one compile
// succeeds, at most two are attempted, and never two at a time. Compiles that say what is wrong with the
// program, and ends that are nobody's fault, are no attempts in this sense.

#include <map>

#include "absl/strings/str_cat.h"
#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {
namespace {

struct Key {
  uint64_t compiled = 0, died = 0;
};

void CheckDaemon(const Daemon& daemon, Verdict* verdict) {
  std::map<std::pair<std::string, uint64_t>, Key> keys;
  std::map<std::string, int> running;
  auto violation = [&](const Record& record, std::string_view what) {
    verdict->violations.push_back(absl::StrCat(daemon.file->name, ": artifact ",
                                               record.Text("key").substr(0, 12), " of epoch ",
                                               record.Number("epoch"), " ", std::string(what),
                                               ", at ", record.time));
  };
  for (const Record& record : daemon.file->records) {
    if (record.kind == "compile-started") {
      ++verdict->facts;
      if (++running[record.Text("key")] > 1) violation(record, "was compiled twice at a time");
      const Key& key = keys[{record.Text("key"), record.Number("epoch")}];
      if (key.compiled > 0) violation(record, "was compiled again after a success");
      if (key.died > 1) violation(record, "was attempted a third time");
    } else if (record.kind == "compile-ended") {
      --running[record.Text("key")];
      Key& key = keys[{record.Text("key"), record.Number("epoch")}];
      if (record.Text("end") == "compiled") ++key.compiled;
      if (record.Text("end") == "died") ++key.died;
    }
  }
}

}  // namespace

Verdict OneCompile(const Run& run) {
  Verdict verdict;
  for (const Daemon& daemon : run.daemons()) CheckDaemon(daemon, &verdict);
  return verdict;
}

}  // namespace kcache::chaos
