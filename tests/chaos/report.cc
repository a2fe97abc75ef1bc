#include "tests/chaos/report.h"

#include <cstdio>
#include <map>

namespace kcache::chaos {
namespace {

constexpr size_t kMostPrinted = 20;
constexpr size_t kMostCharacters = 600;

void PrintCounts(const char* title, const std::map<std::string, uint64_t>& counts) {
  std::printf("%s\n", title);
  for (const auto& [name, count] : counts) {
    std::printf("  %-28s %8llu\n", name.c_str(), static_cast<unsigned long long>(count));
  }
}

}  // namespace

Outcome Report(const Run& run, bool must_check_all) {
  Outcome outcome;
  std::map<std::string, uint64_t> operations, faults, clients;
  for (const Daemon& daemon : run.daemons()) {
    for (const auto& [id, operation] : daemon.operations) {
      ++operations[operation.kind];
      ++outcome.operations;
    }
    for (const auto& [id, context] : daemon.contexts) clients["contexts lost"] += context.lost != kNever;
    clients["contexts made"] += daemon.contexts.size();
    clients["leases granted"] += daemon.leases.size();
    clients["sessions"] += daemon.sessions.size();
  }
  for (const Record& record : run.controller()) {
    if (record.kind == "fault") ++faults[record.Text("kind")];
  }
  for (const Client& client : run.clients()) {
    for (const Record& record : client.file->records) {
      if (record.kind == "cut") ++clients["times sockets were cut"];
      if (record.kind == "event") ++clients["events heard"];
      if (record.kind == "round" && record.Number("temper") == 1) ++faults["kernel that faults"];
      if (record.kind == "round" && record.Number("temper") == 3) ++faults["compiler that dies"];
      if (record.kind != "round-ended") continue;
      ++clients["rounds"];
      clients["launches taken"] += record.Number("accepted");
      clients["rounds ended well"] += record.Text("read") == "OK";
    }
  }
  clients["client processes"] = run.clients().size();
  clients["device hosts"] = run.hosts().size();
  clients["daemons"] = run.daemons().size();
  for (const auto& [kind, count] : faults) outcome.faults += count;
  PrintCounts("what ran", clients);
  PrintCounts("operations", operations);
  PrintCounts("faults", faults);

  std::printf("%-24s %-28s %9s %9s %10s\n", "validator", "guarantee", "facts", "excused",
              "violations");
  for (const Validator& validator : AllValidators()) {
    Verdict verdict = validator.check(run);
    if (must_check_all && verdict.facts == 0) {
      verdict.violations.emplace_back("not one fact was checked");
    }
    std::printf("%-24s %-28s %9llu %9llu %10zu\n", std::string(validator.name).c_str(),
                std::string(validator.guarantee).c_str(),
                static_cast<unsigned long long>(verdict.facts),
                static_cast<unsigned long long>(verdict.excused), verdict.violations.size());
    for (size_t i = 0; i < verdict.violations.size() && i < kMostPrinted; ++i) {
      std::printf("    ! %s\n", verdict.violations[i].substr(0, kMostCharacters).c_str());
    }
    outcome.violations += verdict.violations.size();
    if (!verdict.violations.empty()) outcome.violated.emplace_back(validator.name);
  }
  return outcome;
}

}  // namespace kcache::chaos
