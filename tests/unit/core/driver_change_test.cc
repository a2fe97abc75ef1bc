// A driver that goes, comes or changes: what depends on it is invalidated as by a destroy, and comes back
// without an operator.

#include "tests/unit/core/harness.h"

namespace kcache::core {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DriverChange : public ::testing::Test {
 protected:
  // What a change of the driver's files starts.
  void ProbeAgain() {
    h.executor.Run([&] { h.service()->StartRescan(Peer{}, [](const v1::OperationUpdate&) {}); });
    h.Settle();
  }
  void TakeDriverAway() {
    h.prober.reports[0].set_available(false);
    h.prober.reports[0].set_reason("libfake.so.1 not found");
    h.prober.reports[0].clear_devices();
  }
  void InstallVersionTwo() {
    for (v1::DeviceInfo& device : *h.prober.reports[0].mutable_devices()) {
      device.set_driver_version("2");
      device.set_compiler_fingerprint("compiler-2");
    }
  }
  // What runs, and what then has its turn.
  void CompileAll() {
    while (!h.workers.jobs.empty()) {
      h.workers.FinishAll();
      h.Settle();
    }
  }
  void BringDriverBack() { h.prober.reports[0] = FakeReport("Fake", 2); }
  std::optional<absl::Status> Refusal() { return client->FailureOf(client->Acquire(program, "add")); }

  Harness h;
  const TestProgram program{"kernel add "};
  std::unique_ptr<TestClient> client = h.Client();
};

TEST_F(DriverChange, OneThatGoesInvalidatesAndAnswersNotReadyWithTheReason) {
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add")));
  TakeDriverAway();
  ProbeAgain();
  ASSERT_EQ(client->Invalidations().size(), 2u);
  EXPECT_EQ(client->Invalidations()[0].phase(), v1::PHASE_BEFORE);
  EXPECT_THAT(client->Invalidations()[0].reason(), HasSubstr("libfake.so.1 not found"));
  EXPECT_EQ(client->Invalidations()[1].phase(), v1::PHASE_AFTER);
  EXPECT_EQ(h.host().teardowns.size(), 1u);
  EXPECT_TRUE(h.host().exited);
  const auto refusal = Refusal();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(ReasonOf(*refusal), v1::NOT_READY);
  EXPECT_THAT(refusal->ToString(), HasSubstr("libfake.so.1 not found"));
  EXPECT_TRUE(h.events.Saw("device-unavailable"));
  EXPECT_THAT(h.events.audits, ::testing::Contains(HasSubstr("driver-change Fake:0 | done")));
}

TEST_F(DriverChange, ItComesBackWithoutAnOperator) {
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add")));
  TakeDriverAway();
  ProbeAgain();
  BringDriverBack();
  ProbeAgain();
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add")));
  EXPECT_EQ(h.host(1).spec.open.context().generation(), 2u);
  EXPECT_TRUE(h.events.Saw("device-returned"));
}

TEST_F(DriverChange, AnotherVersionIsADestroyAndAnotherKey) {
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add")));
  InstallVersionTwo();
  ProbeAgain();
  EXPECT_EQ(client->Invalidations().size(), 2u);
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add")));
  EXPECT_EQ(h.workers.sources.size(), 2u) << "compiled again";
}

TEST_F(DriverChange, NothingThatIsStillTheSameIsTouched) {
  Harness two({}, {FakeReport("Fake", 2), FakeReport("Other", 1)});
  auto user = two.Client();
  ASSERT_TRUE(user->GrantOf(user->Acquire(program, "add", "Fake:0")));
  ASSERT_TRUE(user->GrantOf(user->Acquire(program, "add", "Other:0")));
  two.prober.reports[0].mutable_devices(0)->set_driver_version("2");
  two.executor.Run([&] { two.service()->StartRescan(Peer{}, [](const v1::OperationUpdate&) {}); });
  two.Settle();
  EXPECT_TRUE(two.host(0).exited);
  EXPECT_FALSE(two.host(1).exited);
}

// A worker has its libraries loaded for as long as it lives.
TEST_F(DriverChange, CompileWorkersAreRenewed) {
  EXPECT_EQ(h.workers.renewed, 0) << "the first probe finds none";
  ProbeAgain();
  EXPECT_EQ(h.workers.renewed, 1);
}

// Of two builds one runs and one waits when the version changes: neither result is taken for the new one's.
TEST_F(DriverChange, BuildsUnderWayAreAskedForAgainUnderTheNewKey) {
  h.workers.hold = true;
  h.workers.slots_ = 1;
  const TestProgram other{"kernel sub "};
  const uint64_t running = client->Acquire(program, "add");
  const uint64_t waiting = client->Acquire(other, "sub");
  ASSERT_EQ(h.workers.jobs.size(), 1u);
  InstallVersionTwo();
  ProbeAgain();
  CompileAll();
  ASSERT_TRUE(client->GrantOf(running));
  ASSERT_TRUE(client->GrantOf(waiting));
  EXPECT_EQ(h.workers.sources.size(), 3u) << "what ran for the old version, and both for the new one";
  EXPECT_EQ(h.store.artifacts.size(), 3u);
  // What the new version made has its key, and is found under it.
  auto later = h.Client();
  ASSERT_TRUE(later->GrantOf(later->Acquire(program, "add")));
  ASSERT_TRUE(later->GrantOf(later->Acquire(other, "sub")));
  EXPECT_EQ(h.workers.sources.size(), 3u);
}

// A look that finds everything as it was costs no compile.
TEST_F(DriverChange, ALookThatFindsNothingNewCompilesNothingTwice) {
  h.workers.hold = true;
  h.workers.slots_ = 1;
  const TestProgram other{"kernel sub "};
  const uint64_t running = client->Acquire(program, "add");
  const uint64_t waiting = client->Acquire(other, "sub");
  for (int i = 0; i < 5; ++i) ProbeAgain();
  CompileAll();
  ASSERT_TRUE(client->GrantOf(running));
  ASSERT_TRUE(client->GrantOf(waiting));
  EXPECT_EQ(h.workers.sources.size(), 2u);
  EXPECT_EQ(h.service()->Status().compiles_queued(), 0u);
}

TEST_F(DriverChange, ALookThatFindsNothingNewAsksNoCompilerForItsErrorTwice) {
  h.workers.hold = true;
  const uint64_t asked = client->Acquire(TestProgram{"kernel error "}, "error");
  ProbeAgain();
  h.workers.FinishAll();
  h.Settle();
  const auto failure = client->FailureOf(asked);
  ASSERT_TRUE(failure);
  EXPECT_EQ(ReasonOf(*failure), v1::COMPILE_FAILED) << failure->ToString();
  EXPECT_EQ(h.workers.sources.size(), 1u);
}

// Who asks after the look finds the build of before it, and that is tried again as any other.
TEST_F(DriverChange, ABuildThatIsAskedForAfterALookIsTriedAgainWhenItsWorkerDies) {
  h.workers.hold = true;
  const uint64_t before = client->Acquire(program, "add");
  ProbeAgain();
  auto other = h.Client();
  const uint64_t after = other->Acquire(program, "add");
  ASSERT_EQ(h.workers.jobs.size(), 1u);
  h.workers.Crash(h.workers.jobs[0].id, CompileOutcome::End::kNotCounted, "killed from outside");
  h.Settle();
  h.workers.FinishAll();
  h.Settle();
  EXPECT_TRUE(client->GrantOf(before));
  EXPECT_TRUE(other->GrantOf(after));
  EXPECT_EQ(h.workers.sources.size(), 2u);
}

TEST_F(DriverChange, OneThatGoesWhileItsDeviceDrainsIsUnavailableAfterwards) {
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add")));
  client->acks = false;
  auto told = h.Destroy("Fake:0");
  TakeDriverAway();
  ProbeAgain();
  EXPECT_FALSE(told->done());
  client->Ack(client->Invalidations()[0]);
  h.Settle();
  EXPECT_TRUE(told->done());
  const auto refusal = Refusal();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(ReasonOf(*refusal), v1::NOT_READY) << refusal->ToString();
}

TEST_F(DriverChange, OneThatAnOperatorKeepsDownStaysDown) {
  ASSERT_TRUE(h.Destroy("Fake:0", /*physical=*/false, /*stay_down=*/true)->done());
  TakeDriverAway();
  ProbeAgain();
  BringDriverBack();
  ProbeAgain();
  const auto refusal = Refusal();
  ASSERT_TRUE(refusal);
  EXPECT_EQ(ReasonOf(*refusal), v1::DEVICE_DOWN) << refusal->ToString();
}

}  // namespace
}  // namespace kcache::core
