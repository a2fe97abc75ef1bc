// Destroy, clear, reset: told before, fenced, released, told after.

#include "daemon/core/context.h"
#include "tests/unit/core/harness.h"

namespace kcache::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct TwoClients {
  explicit TwoClients(Options options = {}) : h(std::move(options)) {
    a = h.Client();
    b = h.Client();
    grant_a = a->GrantOf(a->Acquire(program, "add"));
    grant_b = b->GrantOf(b->Acquire(program, "add"));
    EXPECT_TRUE(grant_a && grant_b);
  }
  TestProgram program{"kernel add kernel sub "};
  Harness h;
  std::unique_ptr<TestClient> a, b;
  std::optional<v1::Grant> grant_a, grant_b;
};

std::vector<v1::Phase> Phases(const TestClient& client) {
  std::vector<v1::Phase> phases;
  for (const v1::Invalidate& step : client.Invalidations()) phases.push_back(step.phase());
  return phases;
}

TEST(Teardown, G1ReleaseWaitsForEveryAck) {
  TwoClients t;
  t.a->acks = t.b->acks = false;
  auto told = t.h.Destroy("Fake:0");
  ASSERT_EQ(t.a->Invalidations().size(), 1u);
  EXPECT_TRUE(t.a->Invalidations()[0].needs_ack());
  t.a->Ack(t.a->Invalidations()[0]);
  EXPECT_TRUE(t.h.host().fences.empty()) << "one of two has acknowledged";
  t.b->Ack(t.b->Invalidations()[0]);
  EXPECT_TRUE(told->done());
  EXPECT_THAT(t.h.host().log, Contains("fence context"));
  EXPECT_EQ(told->result().acked(), 2u);
  EXPECT_EQ(told->result().unacked(), 0u);
  EXPECT_TRUE(told->result().ok());
}

TEST(Teardown, G1GraceOverReleasesAndReportsTheUnacked) {
  TwoClients t;
  t.b->acks = false;
  auto told = t.h.Destroy("Fake:0");
  t.h.executor.Advance(absl::Milliseconds(1999));
  EXPECT_TRUE(t.h.host().fences.empty());
  t.h.executor.Advance(absl::Milliseconds(2));
  ASSERT_TRUE(told->done());
  EXPECT_EQ(told->result().unacked(), 1u);
  EXPECT_THAT(told->result().failures(0), HasSubstr("revoked unacknowledged"));
  ASSERT_EQ(t.b->Invalidations().size(), 2u);
  EXPECT_EQ(t.b->Invalidations()[1].failure().reason(), v1::REVOKED_UNACKED);
  EXPECT_FALSE(t.a->Invalidations()[1].has_failure());
}

TEST(Teardown, G1NothingIsReleasedBeforeTheHostConfirmsTheFence) {
  TwoClients t;
  t.h.host().hold_fences = true;
  auto told = t.h.Destroy("Fake:0");
  EXPECT_EQ(t.h.host().teardowns.size(), 0u);
  EXPECT_FALSE(told->done());
  t.h.host().ReleaseHeld();
  t.h.Settle();
  EXPECT_TRUE(told->done());
  EXPECT_EQ(t.h.host().teardowns.size(), 1u);
}

TEST(Teardown, G2BeforeThenAfterExactlyOnceForHoldersAndSubscribers) {
  TwoClients t;
  auto idle = t.h.Client();
  idle->Subscribe();
  auto deaf = t.h.Client();
  auto told = t.h.Destroy("Fake:0");
  ASSERT_TRUE(told->done());
  for (TestClient* client : {t.a.get(), t.b.get(), idle.get()}) {
    EXPECT_THAT(Phases(*client), ElementsAre(v1::PHASE_BEFORE, v1::PHASE_AFTER));
  }
  EXPECT_TRUE(deaf->Invalidations().empty());
  EXPECT_FALSE(idle->Invalidations()[0].needs_ack());
  EXPECT_EQ(told->result().told_before(), 3u);
}

TEST(Teardown, G6AnotherIndexAndAnotherFamilyAreNotTouched) {
  Harness h({}, {FakeReport("Fake", 2), FakeReport("Other", 1)});
  auto client = h.Client();
  const TestProgram program("kernel add ");
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add", "Fake:0")));
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add", "Fake:1")));
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add", "Other:0")));
  ASSERT_TRUE(h.Destroy("Fake:0")->done());
  EXPECT_TRUE(h.host(0).exited);
  EXPECT_FALSE(h.host(1).exited);
  EXPECT_FALSE(h.host(2).exited);
  for (const v1::Invalidate& step : client->Invalidations()) {
    EXPECT_EQ(step.family(), "Fake");
    EXPECT_EQ(step.index(), 0u);
  }
}

TEST(Teardown, S20DestroyThenAcquireIsANewGenerationAndIncarnation) {
  TwoClients t;
  ASSERT_TRUE(t.h.Destroy("Fake:0")->done());
  auto again = t.a->GrantOf(t.a->Acquire(t.program, "add"));
  ASSERT_TRUE(again);
  EXPECT_NE(again->context_id(), t.grant_a->context_id());
  EXPECT_NE(again->lease().mac(), t.grant_a->lease().mac());
  EXPECT_EQ(t.h.host(1).spec.open.context().generation(), 2u);
  EXPECT_NE(t.h.host(1).spec.open.token_key(), t.h.host(0).spec.open.token_key());
}

TEST(Teardown, AcquireWhileDrainingIsAnsweredAtOnce) {
  TwoClients t;
  t.a->acks = false;
  auto told = t.h.Destroy("Fake:0");
  const uint64_t request = t.b->Acquire(t.program, "sub");
  ASSERT_TRUE(t.b->FailureOf(request));
  EXPECT_EQ(ReasonOf(*t.b->FailureOf(request)), v1::DEVICE_DRAINING);
}

TEST(Teardown, G3ABuildThatOverlapsADestroyIsNeverInstalled) {
  Harness h;
  auto client = h.Client();
  const TestProgram program("kernel add kernel sub ");
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add")));
  h.host().hold_loads = true;
  const uint64_t request = client->Acquire(program, "sub");
  auto told = h.Destroy("Fake:0");
  ASSERT_TRUE(client->FailureOf(request));
  EXPECT_EQ(ReasonOf(*client->FailureOf(request)), v1::DEVICE_DESTROYED);
  h.host().ReleaseHeld();
  h.Settle();
  EXPECT_TRUE(told->done());
  EXPECT_FALSE(client->GrantOf(request));
  EXPECT_EQ(h.host().built, h.host().destroyed);
  EXPECT_EQ(h.service()->Status().handles_built(), h.service()->Status().handles_destroyed());
}

TEST(Teardown, G3ACompileThatEndsAfterTheDrainIsKeptAsAnArtifact) {
  Harness h;
  h.workers.hold = true;
  auto client = h.Client();
  const TestProgram program("kernel add ");
  client->AcquireContext();
  client->Acquire(program, "add");
  auto told = h.Destroy("Fake:0");
  ASSERT_TRUE(told->done());
  h.workers.FinishAll();
  EXPECT_EQ(h.store.artifacts.size(), 1u);
}

TEST(Teardown, G3AClearDuringALoadIsRetriedAndGranted) {
  Harness h;
  auto client = h.Client();
  const TestProgram program("kernel add kernel sub ");
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add")));
  h.host().hold_loads = true;
  const uint64_t request = client->Acquire(program, "sub");
  ASSERT_TRUE(h.Clear()->done());
  h.host().ReleaseHeld();
  h.Settle();
  ASSERT_TRUE(client->GrantOf(request)) << "retried after the clear";
  EXPECT_EQ(h.host().loaded.size(), 1u) << "what the clear overtook was unloaded";
  EXPECT_EQ(h.host().built, h.host().destroyed + 1);
}

TEST(Teardown, G3ThreeClearsDuringOneBuildAnswerCleared) {
  Harness h;
  auto client = h.Client();
  const TestProgram program("kernel add kernel sub ");
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add")));
  h.host().hold_loads = true;
  const uint64_t request = client->Acquire(program, "sub");
  for (int i = 0; i < 3; ++i) {
    ASSERT_FALSE(client->FailureOf(request));
    h.host().hold_loads = true;
    auto held = std::move(h.host().held);
    h.host().held.clear();
    ASSERT_TRUE(h.Clear()->done());
    for (auto& answer : held) answer();
    h.Settle();
  }
  ASSERT_TRUE(client->FailureOf(request));
  EXPECT_EQ(ReasonOf(*client->FailureOf(request)), v1::CLEARED);
}

TEST(Teardown, ClearKeepsTheContextAndTellsOnBothSides) {
  TwoClients t;
  auto told = t.h.Clear();
  ASSERT_TRUE(told->done());
  EXPECT_FALSE(t.h.host().exited);
  EXPECT_TRUE(t.h.host().loaded.empty());
  EXPECT_THAT(Phases(*t.a), ElementsAre(v1::PHASE_BEFORE, v1::PHASE_AFTER));
  EXPECT_EQ(t.a->Invalidations()[0].kind(), v1::INVALIDATE_CLEAR);
  auto again = t.a->GrantOf(t.a->Acquire(t.program, "add"));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->context_id(), t.grant_a->context_id());
  EXPECT_EQ(again->origin(), v1::GRANT_LOADED) << "no compile: artifacts are kept";
  EXPECT_GT(again->lease().incarnation(), t.grant_a->lease().incarnation());
}

TEST(Teardown, ClearTwice) {
  TwoClients t;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(t.h.Clear()->done());
    ASSERT_TRUE(t.a->GrantOf(t.a->Acquire(t.program, "add")));
  }
  EXPECT_EQ(t.a->Invalidations().size(), 4u);
  EXPECT_EQ(t.h.service()->Status().leases(), 1u);
}

TEST(Teardown, ClearWithArtifactsCompilesAgain) {
  TwoClients t;
  ASSERT_TRUE(t.h.Clear("", {}, /*artifacts=*/true)->done());
  EXPECT_TRUE(t.h.store.artifacts.empty());
  auto again = t.a->GrantOf(t.a->Acquire(t.program, "add"));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->origin(), v1::GRANT_COMPILED);
}

TEST(Teardown, ClearsTakeTurns) {
  TwoClients t;
  t.a->acks = false;
  auto first = t.h.Clear(), second = t.h.Clear();
  EXPECT_EQ(t.a->Invalidations().size(), 1u);
  EXPECT_EQ(second->updates.back().phase(), "queued");
  t.a->Ack(t.a->Invalidations()[0]);
  EXPECT_TRUE(first->done());
  EXPECT_TRUE(second->done());
}

TEST(Teardown, TwoDestroysJoinTwoIdsOnePairOfMessages) {
  TwoClients t;
  t.a->acks = t.b->acks = false;
  auto first = t.h.Destroy("Fake:0"), second = t.h.Destroy("Fake:0");
  t.a->Ack(t.a->Invalidations()[0]);
  t.b->Ack(t.b->Invalidations()[0]);
  ASSERT_TRUE(first->done() && second->done());
  EXPECT_NE(first->updates[0].operation_id(), second->updates[0].operation_id());
  EXPECT_TRUE(second->result().joined());
  EXPECT_EQ(second->result().acked(), 2u);
  EXPECT_THAT(Phases(*t.a), ElementsAre(v1::PHASE_BEFORE, v1::PHASE_AFTER));
}

TEST(Teardown, DestroyDuringClearTakesOver) {
  TwoClients t;
  t.a->acks = t.b->acks = false;
  auto clear = t.h.Clear();
  auto destroy = t.h.Destroy("Fake:0");
  // BEFORE of both; only the destroy's acknowledgement counts now.
  ASSERT_EQ(t.a->Invalidations().size(), 2u);
  t.a->Ack(t.a->Invalidations()[1]);
  t.b->Ack(t.b->Invalidations()[1]);
  EXPECT_TRUE(destroy->done());
  EXPECT_TRUE(clear->done());
  EXPECT_EQ(t.h.host().built, t.h.host().destroyed);
  EXPECT_EQ(t.a->Invalidations().size(), 4u) << "an AFTER for each";
}

TEST(Teardown, ClearDuringDestroySkipsTheContext) {
  TwoClients t;
  t.a->acks = false;
  auto destroy = t.h.Destroy("Fake:0");
  auto clear = t.h.Clear();
  EXPECT_TRUE(clear->done());
  EXPECT_FALSE(destroy->done());
}

TEST(Teardown, AckOfAnotherOperationDoesNotCount) {
  TwoClients t;
  t.a->acks = t.b->acks = false;
  auto told = t.h.Destroy("Fake:0");
  v1::Invalidate wrong = t.a->Invalidations()[0];
  wrong.set_operation_id(std::string(16, 'x'));
  t.a->Ack(wrong);
  t.b->Ack(t.b->Invalidations()[0]);
  EXPECT_FALSE(told->done());
  t.a->Ack(t.a->Invalidations()[0]);
  EXPECT_TRUE(told->done());
}

TEST(Teardown, AckBeforeTheDrainAndTwiceIsHarmless) {
  TwoClients t;
  v1::Invalidate early;
  early.set_operation_id(std::string(16, 'e'));
  early.mutable_context()->set_context_id(t.grant_a->context_id());
  t.a->Ack(early);
  t.a->acks = t.b->acks = false;
  auto told = t.h.Destroy("Fake:0");
  t.a->Ack(t.a->Invalidations()[0]);
  t.a->Ack(t.a->Invalidations()[0]);
  EXPECT_FALSE(told->done());
  t.b->Ack(t.b->Invalidations()[0]);
  EXPECT_TRUE(told->done());
  EXPECT_EQ(told->result().acked(), 2u);
}

TEST(Teardown, ADeviceOfItsOwnDoesNotWaitForAnotherOne) {
  Harness h;
  auto client = h.Client(), slow = h.Client();
  const TestProgram program("kernel add ");
  ASSERT_TRUE(slow->GrantOf(slow->Acquire(program, "add", "Fake:0")));
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add", "Fake:1")));
  slow->acks = false;
  auto first = h.Destroy("Fake:0"), second = h.Destroy("Fake:1");
  EXPECT_TRUE(second->done());
  EXPECT_FALSE(first->done());
}

TEST(Teardown, ProcessExitCountsOnceTheSessionIsFenced) {
  TwoClients t;
  t.b->acks = false;
  auto told = t.h.Destroy("Fake:0");
  ASSERT_FALSE(told->done());
  t.h.executor.Run([&] { t.h.service()->ProcessExited(t.b->peer()); });
  EXPECT_FALSE(told->done()) << "its stream is still open";
  t.b->CutStream();
  EXPECT_TRUE(told->done());
  EXPECT_EQ(told->result().gone(), 1u);
  EXPECT_THAT(t.h.host().log,
              Contains(absl::StrCat("fence session ", t.b->session_id())));
}

TEST(Teardown, AMereDisconnectIsNoAck) {
  TwoClients t;
  t.b->acks = false;
  auto told = t.h.Destroy("Fake:0");
  t.b->CutStream();
  EXPECT_FALSE(told->done());
  t.h.executor.Advance(absl::Seconds(3));
  ASSERT_TRUE(told->done());
  EXPECT_EQ(told->result().unacked(), 1u);
}

TEST(Teardown, AckCarriesPositionsToTheFence) {
  TwoClients t;
  t.a->acks = t.b->acks = false;
  auto told = t.h.Destroy("Fake:0");
  t.a->Ack(t.a->Invalidations()[0], {{0, 17}, {3, 4}});
  t.b->Ack(t.b->Invalidations()[0]);
  ASSERT_TRUE(told->done());
  bool found = false;
  for (const v1::SessionPositions& until : t.h.host().fences.back().admit_until()) {
    if (until.session_id() != t.a->session_id()) continue;
    found = true;
    ASSERT_EQ(until.positions_size(), 2);
    EXPECT_EQ(until.positions(0).sequence(), 17u);
    EXPECT_EQ(until.positions(1).queue(), 3u);
  }
  EXPECT_TRUE(found);
}

TEST(Teardown, ReleaseCarriesPositionsToTheUnload) {
  TwoClients t;
  t.a->Release(*t.grant_a, {{1, 9}});
  ASSERT_TRUE(t.h.Clear()->done());
  const v1::FenceRequest& fence = t.h.host().fences.back();
  ASSERT_GE(fence.admit_until_size(), 1);
  EXPECT_EQ(fence.admit_until(0).positions(0).sequence(), 9u);
}

TEST(Teardown, G8HostCrashIsLostToItsHoldersOnlyAndTheNextAcquireWorks) {
  TwoClients t;
  auto other = t.h.Client(2000);
  ASSERT_TRUE(other->GrantOf(other->Acquire(t.program, "add")));
  t.h.host(0).Exit("killed by SIGSEGV");
  t.h.Settle();
  ASSERT_EQ(t.a->Invalidations().size(), 1u);
  EXPECT_EQ(t.a->Invalidations()[0].kind(), v1::INVALIDATE_LOST);
  EXPECT_THAT(t.a->Invalidations()[0].failure().message(), HasSubstr("SIGSEGV"));
  EXPECT_TRUE(other->Invalidations().empty());
  EXPECT_TRUE(t.a->GrantOf(t.a->Acquire(t.program, "add")));
}

TEST(Teardown, LostWhileDrainingStopsWaitingAndAfterSaysSo) {
  TwoClients t;
  t.a->acks = t.b->acks = false;
  auto told = t.h.Destroy("Fake:0");
  t.h.host().Exit("killed by SIGSEGV");
  t.h.Settle();
  ASSERT_TRUE(told->done());
  ASSERT_EQ(t.a->Invalidations().size(), 2u) << "no LOST of its own";
  EXPECT_EQ(t.a->Invalidations()[1].phase(), v1::PHASE_AFTER);
  EXPECT_TRUE(t.a->Invalidations()[1].lost());
}

TEST(Teardown, G12LostWhileReleasingNamesWhatWasLeftByLabel) {
  TwoClients t;
  v1::LabelChange label;
  label.set_label("scratch 'weights'");
  label.set_acquired(true);
  t.h.executor.Run([&] { t.h.host().observer->OnLabel(label); });
  t.h.host().hold_teardowns = true;
  auto told = t.h.Destroy("Fake:0");
  t.h.host().Exit("killed by SIGBUS");
  t.h.Settle();
  ASSERT_TRUE(told->done());
  EXPECT_THAT(told->result().failures(),
              Contains(HasSubstr("scratch 'weights': the host killed by SIGBUS")));
  EXPECT_EQ(t.a->Invalidations().size(), 2u);
}

TEST(Teardown, G12FailuresOfTheReleaseAreAllReported) {
  TwoClients t;
  t.h.host().teardown_failures = {"kernel add: first", "queue 0: second"};
  auto told = t.h.Destroy("Fake:0");
  ASSERT_TRUE(told->done());
  EXPECT_THAT(told->result().failures(), ElementsAre("kernel add: first", "queue 0: second"));
  EXPECT_TRUE(told->result().ok());
}

TEST(Teardown, ANeverEndingKernelIsKilledAfterItsTime) {
  TwoClients t;
  t.h.host().hold_teardowns = true;
  auto told = t.h.Destroy("Fake:0");
  t.h.executor.Advance(absl::Seconds(12));
  EXPECT_FALSE(told->done());
  t.h.executor.Advance(absl::Seconds(2));
  ASSERT_TRUE(told->done());
  EXPECT_TRUE(t.h.host().killed);
  EXPECT_THAT(told->result().failures(), Contains(HasSubstr("killed")));
}

TEST(Teardown, AHostThatCannotBeKilledIsStuckAndTheDeviceStaysDown) {
  TwoClients t;
  t.h.host().ignore_kill = true;
  t.h.host().hold_fences = true;
  auto told = t.h.Destroy("Fake:0");
  t.h.executor.Advance(absl::Seconds(10));
  ASSERT_TRUE(told->done());
  EXPECT_FALSE(told->result().ok());
  EXPECT_EQ(told->result().error().reason(), v1::STUCK);
  EXPECT_EQ(told->result().device_free(), "no");
  auto late = t.h.Client();
  const uint64_t request = late->Acquire(t.program, "add");
  EXPECT_EQ(ReasonOf(*late->FailureOf(request)), v1::DEVICE_DOWN);
}

// Chaos, seed 12: the destroy of a context whose host was still opening its driver had nobody to kill, and
// ended STUCK with the device down.
TEST(Teardown, AHostThatTakesLongToStartIsEndedByADestroy) {
  Harness h;
  h.hosts.hold_starts = true;
  TestProgram program{"kernel add "};
  auto client = h.Client();
  const uint64_t request = client->Acquire(program, "add");
  auto told = h.Destroy("Fake:0");
  ASSERT_TRUE(told->done());
  EXPECT_TRUE(told->result().ok());
  EXPECT_EQ(ReasonOf(*client->FailureOf(request)), v1::DEVICE_DESTROYED);
  h.hosts.hold_starts = false;
  EXPECT_TRUE(client->GrantOf(client->Acquire(program, "add")));
}

// Chaos: a host that was killed while it opened its context failed acquires without a reason.
TEST(Teardown, AHostThatDiesWhileItStartsIsALostDevice) {
  Harness h;
  h.hosts.start_status = absl::UnavailableError("Socket closed");
  TestProgram program{"kernel add "};
  auto client = h.Client();
  const uint64_t request = client->Acquire(program, "add");
  EXPECT_EQ(ReasonOf(*client->FailureOf(request)), v1::DEVICE_LOST);
}

// Found by core_session_fuzzer: every drain kept itself alive, and with it its context.
TEST(Teardown, WhatIsOverIsForgotten) {
  TwoClients t;
  const std::weak_ptr<Context> context =
      static_cast<Context*>(t.h.host().observer)->weak_from_this();
  ASSERT_FALSE(context.expired());
  ASSERT_TRUE(t.h.Clear()->done());
  ASSERT_TRUE(t.h.Destroy("Fake:0")->done());
  t.h.executor.Advance(absl::Minutes(1));
  EXPECT_TRUE(context.expired()) << context.use_count() << " still refer to it";
}

// Found by core_session_fuzzer: DRAINING to DRAINING.
TEST(Teardown, ADestroyOfAStuckDeviceWaitsForItsHostOnly) {
  TwoClients t;
  t.h.host().hold_teardowns = t.h.host().ignore_kill = true;
  auto first = t.h.Destroy("Fake:0");
  t.h.executor.Advance(absl::Minutes(1));
  ASSERT_TRUE(first->done());
  ASSERT_EQ(first->result().error().reason(), v1::STUCK);
  const size_t fences = t.h.host().fences.size();
  const size_t told = t.a->Invalidations().size();

  auto again = t.h.Destroy("Fake:0");
  t.h.executor.Advance(absl::Minutes(1));
  ASSERT_TRUE(again->done());
  EXPECT_EQ(again->result().error().reason(), v1::STUCK) << "it is still there";
  EXPECT_EQ(t.h.host().fences.size(), fences) << "it has been fenced for good";
  for (size_t i = told; i < t.a->Invalidations().size(); ++i) {
    EXPECT_FALSE(t.a->Invalidations()[i].needs_ack()) << "its leases are gone";
  }

  auto last = t.h.Destroy("Fake:0");
  t.h.host().Exit("killed by SIGKILL, late");
  t.h.Settle();
  ASSERT_TRUE(last->done());
  EXPECT_TRUE(last->result().ok());
  EXPECT_EQ(t.h.service()->Status().contexts(), 0u);
}

TEST(Teardown, AClearThatADestroyTookOverEndsWithItEvenWhenTheHostIsStuck) {
  TwoClients t;
  t.a->acks = t.b->acks = false;
  auto clear = t.h.Clear();
  t.h.host().ignore_kill = true;
  t.h.host().hold_fences = true;
  auto destroy = t.h.Destroy("Fake:0");
  t.h.executor.Advance(absl::Seconds(15));
  ASSERT_TRUE(destroy->done());
  EXPECT_EQ(destroy->result().error().reason(), v1::STUCK);
  EXPECT_TRUE(clear->done()) << "and with it every clear behind it";
}

TEST(Teardown, DownIsDurableBeforeDrainingStarts) {
  TwoClients t;
  t.a->acks = t.b->acks = false;
  auto told = t.h.Destroy("Fake:0", false, /*stay_down=*/true);
  EXPECT_EQ(t.h.state.state.down.count("Fake:0"), 1u);
  t.a->Ack(t.a->Invalidations()[0]);
  t.b->Ack(t.b->Invalidations()[0]);
  ASSERT_TRUE(told->done());
  const uint64_t request = t.a->Acquire(t.program, "add");
  EXPECT_EQ(ReasonOf(*t.a->FailureOf(request)), v1::DEVICE_DOWN);
}

TEST(Teardown, WithoutDurableStateNothingIsDestroyed) {
  TwoClients t;
  t.h.state.status = absl::DataLossError("disk full");
  auto told = t.h.Destroy("Fake:0", false, /*stay_down=*/true);
  ASSERT_TRUE(told->done());
  EXPECT_FALSE(told->result().ok());
  EXPECT_FALSE(t.h.host().exited);
  EXPECT_TRUE(t.a->Invalidations().empty());
}

TEST(Teardown, G13PhysicalTakesEveryFamilyOfTheCardAndListsForeignHolders) {
  v1::ProbeReport cuda = FakeReport("Fake", 2), opencl = FakeReport("Other", 1);
  cuda.mutable_devices(0)->set_pci_address("0000:0a:00.0");
  cuda.mutable_devices(0)->add_device_nodes("/dev/fake0");
  opencl.mutable_devices(0)->set_pci_address("0000:0a:00.0");
  Harness h({}, {cuda, opencl});
  auto client = h.Client();
  const TestProgram program("kernel add ");
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add", "Fake:0")));
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add", "Fake:1")));
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add", "Other:0")));
  h.census.holders = {{.pid = 99, .name = "other-tool", .uid = 5, .node = "/dev/fake0"}};
  auto told = h.Destroy("Fake:0", /*physical=*/true);
  ASSERT_TRUE(told->done());
  EXPECT_TRUE(h.host(0).exited);
  EXPECT_FALSE(h.host(1).exited);
  EXPECT_TRUE(h.host(2).exited);
  EXPECT_EQ(told->result().device_free(), "yes");
  ASSERT_EQ(told->result().foreign_size(), 1);
  EXPECT_EQ(told->result().foreign(0).name(), "other-tool");
}

TEST(Teardown, ResetRetiresIdsAndAnOldOneNeverMeansAnotherDevice) {
  Harness h;
  auto client = h.Client();
  client->Subscribe();
  const uint64_t old_id = h.service()->Devices({}).devices(0).info().global_id();
  auto told = h.Reset();
  ASSERT_TRUE(told->done());
  EXPECT_THAT(Phases(*client), ElementsAre(v1::PHASE_BEFORE, v1::PHASE_AFTER));
  v1::ClientEvent event;
  event.mutable_acquire()->set_request_id(50);
  event.mutable_acquire()->set_global_id(old_id);
  event.mutable_acquire()->set_mode(v1::ACQUIRE_CONTEXT);
  client->Send(event);
  EXPECT_EQ(ReasonOf(*client->FailureOf(50)), v1::ID_RETIRED);
}

TEST(Teardown, TheInitiatorMayItselfBeAHolder) {
  TwoClients t;
  v1::ClientEvent event;
  event.mutable_destroy_device()->set_request_id(60);
  event.mutable_destroy_device()->mutable_device()->set_framework("Fake");
  t.a->Send(event);
  ASSERT_TRUE(t.a->DoneOf(60));
  EXPECT_FALSE(t.a->DoneOf(60)->has_error());
  EXPECT_TRUE(t.a->Invalidations()[0].initiator());
  EXPECT_FALSE(t.b->Invalidations()[0].initiator());
}

TEST(Teardown, ASessionDestroysItsOwnDomainsContextOnly) {
  TwoClients t;
  auto other = t.h.Client(2000);
  ASSERT_TRUE(other->GrantOf(other->Acquire(t.program, "add")));
  v1::ClientEvent event;
  event.mutable_destroy_device()->set_request_id(60);
  event.mutable_destroy_device()->mutable_device()->set_framework("Fake");
  t.a->Send(event);
  EXPECT_TRUE(t.h.host(0).exited);
  EXPECT_FALSE(t.h.host(1).exited);
  EXPECT_TRUE(other->Invalidations().empty());
}

TEST(Teardown, NestedClearOfOneOperationNotifiesOnce) {
  TwoClients t;
  t.b->acks = false;
  auto told = t.h.Clear();
  v1::ClientEvent nested;
  nested.mutable_clear()->set_request_id(61);
  nested.mutable_clear()->set_operation_id(told->updates[0].operation_id());
  t.a->Send(nested);
  t.b->Ack(t.b->Invalidations()[0]);
  ASSERT_TRUE(told->done());
  EXPECT_TRUE(t.a->DoneOf(61));
  EXPECT_THAT(Phases(*t.a), ElementsAre(v1::PHASE_BEFORE, v1::PHASE_AFTER));
}

TEST(Teardown, ResumeReplaysWhatWasMissedInOneRecord) {
  TwoClients t;
  t.b->CutStream();
  auto told = t.h.Destroy("Fake:0");
  t.h.executor.Advance(absl::Seconds(3));
  ASSERT_TRUE(told->done());
  t.b->Connect(/*resume=*/true);
  EXPECT_TRUE(t.b->welcome().resumed());
  ASSERT_EQ(t.b->Invalidations().size(), 1u);
  EXPECT_EQ(t.b->Invalidations()[0].kind(), v1::INVALIDATE_MISSED);
}

TEST(Teardown, ADestroyAskedForAgainAfterABreakIsTheSameOperation) {
  TwoClients t;
  t.b->acks = false;
  v1::ClientEvent event;
  event.mutable_destroy_device()->set_request_id(60);
  event.mutable_destroy_device()->mutable_device()->set_framework("Fake");
  event.mutable_destroy_device()->set_operation_id(std::string(16, 'o'));
  t.a->Send(event);
  t.a->CutStream();
  t.a->Connect(/*resume=*/true);
  ASSERT_TRUE(t.a->welcome().resumed());
  event.mutable_destroy_device()->set_request_id(61);
  t.a->Send(event);
  ASSERT_EQ(t.h.service()->Operations().operations_size(), 1);
  t.b->Ack(t.b->Invalidations()[0]);
  ASSERT_TRUE(t.a->DoneOf(61));
  EXPECT_FALSE(t.a->DoneOf(61)->has_error());
  EXPECT_EQ(t.a->DoneOf(61)->operation_id(), std::string(16, 'o'));
  EXPECT_THAT(Phases(*t.b), ElementsAre(v1::PHASE_BEFORE, v1::PHASE_AFTER));

  // Too late to join: it is told how that one ended, and the next context stays.
  ASSERT_TRUE(t.a->GrantOf(t.a->Acquire(t.program, "add")));
  event.mutable_destroy_device()->set_request_id(62);
  t.a->Send(event);
  ASSERT_TRUE(t.a->DoneOf(62));
  EXPECT_EQ(t.a->DoneOf(62)->operation_id(), std::string(16, 'o'));
  EXPECT_FALSE(t.h.host(1).exited);
}

TEST(Teardown, AnOperationIdHasSixteenBytesOrNone) {
  TwoClients t;
  v1::ClientEvent event;
  event.mutable_destroy_device()->set_request_id(60);
  event.mutable_destroy_device()->mutable_device()->set_framework("Fake");
  event.mutable_destroy_device()->set_operation_id("short");
  t.a->Send(event);
  ASSERT_TRUE(t.a->FailureOf(60));
  EXPECT_EQ(ReasonOf(*t.a->FailureOf(60)), v1::BAD_REQUEST);
  EXPECT_THAT(std::string(t.a->FailureOf(60)->message()), HasSubstr("5 bytes"));
  EXPECT_FALSE(t.h.host(0).exited);
}

TEST(Teardown, AckAfterAReconnectMidDrain) {
  TwoClients t;
  t.b->reads = false;
  auto told = t.h.Destroy("Fake:0");
  t.b->CutStream();
  t.b->reads = true;
  t.b->Connect(/*resume=*/true);
  EXPECT_TRUE(told->done());
  EXPECT_EQ(told->result().acked(), 2u);
  EXPECT_THAT(Phases(*t.b), ElementsAre(v1::PHASE_BEFORE, v1::PHASE_AFTER));
}

TEST(Teardown, TheTtlOnlyReaps) {
  TwoClients t;
  for (int i = 0; i < 20; ++i) {
    t.a->Renew();
    t.h.executor.Advance(absl::Seconds(1));
  }
  EXPECT_TRUE(t.b->closed());
  EXPECT_EQ(ReasonOf(t.b->close_status()), v1::SESSION_EXPIRED);
  EXPECT_EQ(t.h.service()->Status().sessions(), 1u);
  EXPECT_EQ(t.h.service()->Status().leases(), 1u) << "no lease outlives its session";
}

TEST(Teardown, ADaemonThatWasStalledReapsNobody) {
  TwoClients t;
  t.h.executor.Stall(absl::Seconds(60));
  EXPECT_EQ(t.h.service()->Status().sessions(), 2u);
  t.h.executor.Advance(absl::Seconds(9));
  EXPECT_EQ(t.h.service()->Status().sessions(), 2u) << "a full TTL for everybody";
  t.h.executor.Advance(absl::Seconds(4));
  EXPECT_EQ(t.h.service()->Status().sessions(), 0u);
}

TEST(Teardown, AThousandExpiriesAtOnce) {
  Harness h;
  const TestProgram program("kernel add ");
  std::vector<std::unique_ptr<TestClient>> clients;
  for (int i = 0; i < 1000; ++i) {
    clients.push_back(h.Client());
    clients.back()->Acquire(program, "add");
  }
  EXPECT_EQ(h.service()->Status().leases(), 1000u);
  h.executor.Advance(absl::Seconds(13));
  EXPECT_EQ(h.service()->Status().sessions(), 0u);
  EXPECT_EQ(h.service()->Status().leases(), 0u);
}

TEST(Teardown, AnOperationOfAFormerInstanceIsInterrupted) {
  Harness h;
  v1::OperationUpdate update;
  h.executor.Run([&] {
    h.service()->Watch(std::string(16, 'z'),
                       [&](const v1::OperationUpdate& told) { update = told; });
  });
  EXPECT_EQ(update.result().error().reason(), v1::INTERRUPTED);
  EXPECT_FALSE(update.result().ok());
}

TEST(Teardown, ShutdownDrainsEverythingWithinItsGrace) {
  TwoClients t;
  t.b->acks = false;
  bool done = false;
  t.h.executor.Run([&] { t.h.service()->Shutdown([&] { done = true; }); });
  EXPECT_FALSE(done);
  const uint64_t request = t.a->Acquire(t.program, "sub");
  EXPECT_EQ(ReasonOf(*t.a->FailureOf(request)), v1::SHUTTING_DOWN);
  t.h.executor.Advance(absl::Seconds(3));
  EXPECT_TRUE(done);
  EXPECT_TRUE(t.h.host().exited);
}

TEST(Teardown, AForeignUidCannotTakeOverASession) {
  TwoClients t;
  TestClient mallory(&t.h, Peer{.uid = 666, .gid = 666, .pid = 5});
  v1::BlobCredentials stolen;
  stolen.set_instance(t.a->welcome().instance());
  stolen.set_session_id(t.a->welcome().session_id());
  stolen.set_session_key(t.a->welcome().session_key());
  const absl::Status status = t.h.service()->AddBlob(mallory.peer(), stolen, Digest::Of("x"), "x");
  EXPECT_EQ(ReasonOf(status), v1::PERMISSION_DENIED);
  EXPECT_TRUE(t.h.events.Saw("foreign-session"));
}

}  // namespace
}  // namespace kcache::core
