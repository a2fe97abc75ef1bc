// What tests/chaos/domains/run.sh measures, as tests with smaller numbers.

#include <gtest/gtest.h>

#include "tests/chaos/domains/host_crashes.h"
#include "tests/chaos/domains/hostile_compiles.h"
#include "tests/chaos/domains/hostile_programs.h"
#include "tests/chaos/domains/killed_daemon.h"
#include "tests/chaos/domains/native_code.h"
#include "tests/chaos/domains/replays.h"
#include "tests/integration/domains/users.h"

namespace kcache::domains {
namespace {

class Domains : public AsUser {};
KCACHE_AS_BOTH_USERS(Domains);

TEST_P(Domains, G8AHostThatIsKilledDisturbsNoOtherDomainAndComesBack) {
  if (!Plays()) return;
  const auto report = CrashHosts(ChooseCast(), 3);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->crashes, 3);
  EXPECT_EQ(report->other_failures.count, 0u) << report->other_failures.first;
  EXPECT_GT(report->other_launches, 0u);
  EXPECT_EQ(report->recover_ms.size(), 3u);
}

TEST_P(Domains, G9HostileProgramsFailAlone) {
  if (!Plays()) return;
  const auto report = CompileHostilePrograms(ChooseCast());
  ASSERT_TRUE(report.ok()) << report.status();
  for (const HostileOutcome& one : report->outcomes) {
    EXPECT_TRUE(one.contained) << one.kind << " (" << one.how << ", " << one.compiler
                               << "): " << one.reason << ": " << one.message;
  }
  EXPECT_EQ(report->kinds, kHostileKinds);
  EXPECT_EQ(report->other_failures.count, 0u) << report->other_failures.first;
  EXPECT_TRUE(report->good_compile_after);
  EXPECT_LE(report->memory_after, report->memory_before + kMemorySlack);
}

TEST_P(Domains, S28NothingIsLeftOfABusyDaemonThatIsKilledAndTheNextServes) {
  if (!Plays()) return;
  const auto report = KillDaemon(ChooseCast());
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->hosts, 4);
  EXPECT_EQ(report->workers, 2);
  EXPECT_GT(report->processes, 6);
  EXPECT_EQ(report->left, std::vector<std::string>());
}

TEST_P(Domains, G14CapturedSecretsAreRefusedAndLogged) {
  if (!Plays()) return;
  const auto report = ReplaySecrets(ChooseCast(), 2);
  ASSERT_TRUE(report.ok()) << report.status();
  for (const ReplayKind& kind : report->kinds) {
    EXPECT_EQ(kind.refused, kind.tried) << kind.what << ": " << kind.reason;
  }
  EXPECT_EQ(report->kinds.size(), 9u);
  EXPECT_EQ(report->logged, report->tried);
  EXPECT_TRUE(report->victim_is_fine);
}

TEST_P(Domains, G14NativeCodeReachesNoOtherHostNorTheDaemon) {
  if (!Plays()) return;
  const auto report = RunNativeCode(ChooseCast());
  ASSERT_TRUE(report.ok()) << report.status();
  if (!report->skipped.empty()) GTEST_SKIP() << report->skipped;
  for (const NativeAttempt& one : report->attempts) {
    EXPECT_TRUE(one.refused) << one.what << ": " << one.error;
  }
  EXPECT_GT(report->attempts.size(), 20u);
  EXPECT_TRUE(report->victim_is_fine);
}

}  // namespace
}  // namespace kcache::domains
