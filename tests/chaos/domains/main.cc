// Runs the four parts and prints what they found: tests/chaos/domains/run.sh.
//
//   kcache-chaos-domains [--crashes=N] [--rounds=N]

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "tests/chaos/domains/host_crashes.h"
#include "tests/chaos/domains/hostile_compiles.h"
#include "tests/chaos/domains/hostile_programs.h"
#include "tests/chaos/domains/killed_daemon.h"
#include "tests/chaos/domains/native_code.h"
#include "tests/chaos/domains/replays.h"

namespace kcache::domains {
namespace {

struct Summary {
  uint64_t other_domain_failures = 0;
  double recover_ms_p50 = 0;
  int hostile = 0, hostile_contained = 0;
  double acquire_p99_ratio = 0;
  size_t left_after_kill = 0;
  int replays_refused = 0;
};

class Run {
 public:
  Run(int crashes, int rounds) : crashes_(crashes), rounds_(rounds), cast_(ChooseCast()) {}

  int All() {
    std::printf("%s\n", cast_.words.c_str());
    for (const std::string& one : cast_.excluded) std::printf("  excluded: %s\n", one.c_str());
    HostCrashes();
    HostileCompiles();
    KilledDaemon();
    Replays();
    NativeCode();
    std::printf("summary: other_domain_failures=%llu recover_ms_p50=%.1f hostile=%d "
                "hostile_contained=%d acquire_p99_ratio=%.2f left_after_kill=%zu "
                "replays_refused=%d violations=%d\n",
                static_cast<unsigned long long>(sum_.other_domain_failures), sum_.recover_ms_p50,
                sum_.hostile, sum_.hostile_contained, sum_.acquire_p99_ratio, sum_.left_after_kill,
                sum_.replays_refused, violations_);
    return violations_ == 0 ? 0 : 1;
  }

 private:
  void Check(bool good, const std::string& what) {
    if (good) return;
    ++violations_;
    std::printf("  VIOLATED: %s\n", what.c_str());
  }
  template <class Report>
  bool Ran(const absl::StatusOr<Report>& report) {
    Check(report.ok(), "the part did not run to its end: " + report.status().ToString());
    return report.ok();
  }
  static void Title(const char* title) {
    std::printf("\n== %s\n", title);
    std::fflush(stdout);
  }

  void HostCrashes() {
    Title("a host is killed by SIGSEGV while clients launch");
    std::printf("  (each crash by itself: --hosts.crash-window=10ms --hosts.crashes-to-hold=1000, "
                "for three in a minute put a context on hold)\n");
    auto report = CrashHosts(cast_, crashes_);
    if (!Ran(report)) return;
    std::sort(report->recover_ms.begin(), report->recover_ms.end());
    sum_.other_domain_failures = report->other_failures.count;
    sum_.recover_ms_p50 = report->recover_ms[report->recover_ms.size() / 2];
    std::printf("  crashes %d; own domain: %llu launches, %llu failed; other domains: %llu launches, "
                "%llu failed\n",
                report->crashes, static_cast<unsigned long long>(report->own_launches),
                static_cast<unsigned long long>(report->own_failures),
                static_cast<unsigned long long>(report->other_launches),
                static_cast<unsigned long long>(report->other_failures.count));
    std::printf("  crash to first good launch: p50 %.1f ms, most %.1f ms\n", sum_.recover_ms_p50,
                report->recover_ms.back());
    Check(report->other_failures.count == 0,
          "a client of another domain noticed: " + report->other_failures.first);
    Check(report->other_launches > 0, "the other domains launched nothing");
  }

  void HostileCompiles() {
    Title("hostile programs, while others acquire");
    auto report = CompileHostilePrograms(cast_);
    if (!Ran(report)) return;
    std::printf("  %-10s %-38s %-7s %7s  %-9s %s\n", "kind", "how", "through", "seconds", "contained",
                "answer");
    for (const HostileOutcome& one : report->outcomes) {
      std::printf("  %-10s %-38.38s %-7s %7.1f  %-9s %s\n", one.kind.c_str(), one.how.c_str(),
                  one.compiler.c_str(), one.seconds, one.contained ? "yes" : "NO",
                  one.message.empty() ? one.reason.c_str()
                                      : (one.reason + ": " + one.message).c_str());
      Check(one.contained, one.kind + " (" + one.how + ") got through");
    }
    sum_.hostile = report->kinds;
    sum_.hostile_contained = report->kinds_contained;
    constexpr double kMiB = 1 << 20;
    std::printf("  kcached's memory: %.1f MiB before, %.1f MiB after\n",
                static_cast<double>(report->memory_before) / kMiB,
                static_cast<double>(report->memory_after) / kMiB);
    if (report->p99_quiet_us > 0) sum_.acquire_p99_ratio = report->p99_during_us / report->p99_quiet_us;
    std::printf("  warm acquires of others: p99 %.0f µs during (%llu), %.0f µs between (%llu)\n",
                report->p99_during_us, static_cast<unsigned long long>(report->acquires_during),
                report->p99_quiet_us, static_cast<unsigned long long>(report->acquires_quiet));
    Check(report->kinds == kHostileKinds, "not every kind was tried");
    Check(report->other_failures.count == 0,
          "another client noticed: " + report->other_failures.first);
    Check(report->good_compile_after, "a good program does not compile any more");
    Check(report->memory_after <= report->memory_before + kMemorySlack, "kcached's memory has grown");
    Check(report->acquires_during > 0 && report->acquires_quiet > 0, "nobody acquired");
  }

  void KilledDaemon() {
    Title("kill -9 of a busy daemon");
    auto report = KillDaemon(cast_);
    if (!Ran(report)) return;
    sum_.left_after_kill = report->left.size();
    std::printf("  %d hosts with a kernel, %d compiles, %d processes; one second later %zu, the last "
                "went after %.0f ms; a new daemon: first good launch after %.0f ms\n",
                report->hosts, report->workers, report->processes, report->left.size(),
                report->gone_ms, report->serving_ms);
    for (const std::string& one : report->left) Check(false, "left: " + one);
  }

  void Replays() {
    Title("a stranger uses what he has captured");
    auto report = ReplaySecrets(cast_, rounds_);
    if (!Ran(report)) return;
    for (const ReplayKind& kind : report->kinds) {
      std::printf("  %-16s %d of %d refused  %-18s logged as %s\n", kind.what.c_str(), kind.refused,
                  kind.tried, kind.reason.c_str(), kind.event.c_str());
      Check(kind.refused == kind.tried, kind.what + " was not refused each time");
    }
    sum_.replays_refused = report->refused;
    std::printf("  %d of %d refused, %d logged\n", report->refused, report->tried, report->logged);
    Check(report->tried == report->logged, "not every attempt is in the log");
    Check(report->victim_is_fine, "the victim's session does not work any more");
  }

  void NativeCode() {
    Title("a native kernel of a stranger");
    auto report = RunNativeCode(cast_);
    if (!Ran(report)) return;
    if (!report->skipped.empty()) {
      std::printf("  skipped: %s\n", report->skipped.c_str());
      return;
    }
    std::string line = " ";
    for (const NativeAttempt& one : report->attempts) {
      line += " " + one.what + "=" + one.error;
      Check(one.refused, one.what + " was not refused");
    }
    std::printf("%s\n  %d of %zu refused\n", line.c_str(), report->refused, report->attempts.size());
    Check(report->victim_is_fine, "the victim's session does not work any more");
  }

  const int crashes_;
  const int rounds_;
  const Cast cast_;
  Summary sum_;
  int violations_ = 0;
};

bool Number(const char* argument, const char* option, int* value) {
  const size_t length = std::strlen(option);
  if (std::strncmp(argument, option, length) != 0) return false;
  const char* end = argument + std::strlen(argument);
  const auto parsed = std::from_chars(argument + length, end, *value);
  return parsed.ec == std::errc() && parsed.ptr == end && *value > 0;
}

}  // namespace
}  // namespace kcache::domains

int main(int argc, char** argv) {
  int crashes = 50, rounds = 10;
  for (int i = 1; i < argc; ++i) {
    if (kcache::domains::Number(argv[i], "--crashes=", &crashes)) continue;
    if (kcache::domains::Number(argv[i], "--rounds=", &rounds)) continue;
    std::fprintf(stderr, "kcache-chaos-domains: not understood: %s\n", argv[i]);
    return 2;
  }
  return kcache::domains::Run(crashes, rounds).All();
}
