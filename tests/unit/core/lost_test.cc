// A host says that its context is lost: its holders are told at once, the next acquire makes the next
// generation, and the process that is still ending stays ours to end.

#include "daemon/core/context.h"
#include "tests/unit/core/harness.h"

namespace kcache::core {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Lost {
  explicit Lost(Options options = {}) : h(std::move(options)) {
    client = h.Client();
    grant = client->GrantOf(client->Acquire(program, "add"));
    EXPECT_TRUE(grant);
  }
  // The first host says it; its process goes on.
  void Fault() {
    h.host(0).SayLost("illegal address");
    h.Settle();
  }
  v1::AdminDevice Device() { return h.service()->Devices({}).devices(0); }

  TestProgram program{"kernel add "};
  Harness h;
  std::unique_ptr<TestClient> client;
  std::optional<v1::Grant> grant;
};

std::vector<std::string> StatesOf(const v1::AdminDevice& device) {
  std::vector<std::string> states;
  for (const v1::ContextSummary& context : device.contexts()) states.push_back(context.state());
  return states;
}

TEST(Lost, G8HoldersAreToldOnceAndBeforeTheProcessIsGone) {
  Lost t;
  t.Fault();
  ASSERT_FALSE(t.h.host(0).exited);
  ASSERT_EQ(t.client->Invalidations().size(), 1u);
  EXPECT_EQ(t.client->Invalidations()[0].kind(), v1::INVALIDATE_LOST);
  EXPECT_EQ(t.client->Invalidations()[0].failure().reason(), v1::KERNEL_FAULT);
  EXPECT_EQ(t.h.service()->Status().leases(), 0u);
  t.h.host(0).Exit("exited with 70");
  t.h.Settle();
  EXPECT_EQ(t.client->Invalidations().size(), 1u);
  EXPECT_EQ(t.h.service()->Status().host_crashes(), 1u);
  EXPECT_EQ(t.h.service()->Status().contexts(), 0u);
}

TEST(Lost, G8TheNextAcquireDoesNotWaitForTheProcess) {
  Lost t;
  t.Fault();
  auto again = t.client->GrantOf(t.client->Acquire(t.program, "add"));
  ASSERT_TRUE(again) << "the old process is still there: " << !t.h.host(0).exited;
  EXPECT_FALSE(t.h.host(0).exited);
  EXPECT_THAT(StatesOf(t.Device()), ElementsAre("LOST", "ALIVE"));
  EXPECT_EQ(t.Device().contexts(0).host_pid(), 10000);
  t.h.host(0).Exit("exited with 70");
  t.h.Settle();
  EXPECT_THAT(StatesOf(t.Device()), ElementsAre("ALIVE"));
  EXPECT_EQ(t.client->Invalidations().size(), 1u) << "the new one is nobody else's business";
  EXPECT_EQ(t.h.service()->Status().leases(), 1u);
}

TEST(Lost, G7NothingOfTheLostContextIsTheNextOnes) {
  Lost t;
  t.Fault();
  auto again = t.client->GrantOf(t.client->Acquire(t.program, "add"));
  ASSERT_TRUE(again);
  EXPECT_NE(again->context_id(), t.grant->context_id());
  EXPECT_NE(again->lease().mac(), t.grant->lease().mac());
  const v1::OpenContextRequest &first = t.h.host(0).spec.open, &second = t.h.host(1).spec.open;
  EXPECT_EQ(second.context().generation(), first.context().generation() + 1);
  EXPECT_NE(second.token_key(), first.token_key());
  // A release of the old lease, late, is not one of the new.
  t.client->Release(*t.grant);
  EXPECT_EQ(t.h.service()->Status().leases(), 1u);
}

TEST(Lost, ALoadUnderWayFailsWithTheLossAndIsAcquiredAnew) {
  Lost t;
  const TestProgram other("kernel sub ");
  t.h.host(0).hold_loads = true;
  const uint64_t request = t.client->Acquire(other, "sub");
  t.Fault();
  ASSERT_TRUE(t.client->FailureOf(request));
  EXPECT_EQ(ReasonOf(*t.client->FailureOf(request)), v1::KERNEL_FAULT);
  t.h.host(0).ReleaseHeld();  // it answers all the same
  t.h.Settle();
  EXPECT_FALSE(t.client->GrantOf(request));
  EXPECT_TRUE(t.client->GrantOf(t.client->Acquire(other, "sub")));
}

TEST(Lost, AProcessThatDoesNotEndIsKilledThenStuckAndTheNewOneGoesOn) {
  Lost t;
  t.h.host(0).ignore_kill = true;
  t.Fault();
  ASSERT_TRUE(t.client->GrantOf(t.client->Acquire(t.program, "add")));
  const absl::Duration limit = Limits().kill_verify;
  t.h.executor.Advance(limit - absl::Milliseconds(1));
  EXPECT_FALSE(t.h.host(0).killed) << "it ends by itself, if it can";
  t.h.executor.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(t.h.host(0).killed);
  EXPECT_FALSE(t.h.events.Saw("host-stuck"));
  t.client->Renew();
  t.h.executor.Advance(limit);
  EXPECT_TRUE(t.h.events.Saw("host-stuck"));
  ASSERT_THAT(StatesOf(t.Device()), ElementsAre("LOST", "ALIVE"));
  EXPECT_THAT(t.Device().contexts(0).reason(), HasSubstr("STUCK"));
  EXPECT_EQ(t.Device().info().state(), v1::DEVICE_UP);
  EXPECT_FALSE(t.h.host(1).killed);
  EXPECT_EQ(t.h.service()->Status().leases(), 1u);
  EXPECT_TRUE(t.client->GrantOf(t.client->Acquire(t.program, "add")));
  t.h.host(0).Exit("killed by SIGKILL, late");
  t.h.Settle();
  EXPECT_THAT(StatesOf(t.Device()), ElementsAre("ALIVE"));
}

TEST(Lost, G13ADestroyWaitsForBoth) {
  Lost t;
  t.Fault();
  ASSERT_TRUE(t.client->GrantOf(t.client->Acquire(t.program, "add")));
  const size_t before = t.client->Invalidations().size();
  auto told = t.h.Destroy("Fake:0");
  EXPECT_TRUE(t.h.host(1).exited);
  EXPECT_FALSE(told->done()) << "the lost one's process has the device open";
  EXPECT_EQ(t.Device().info().state(), v1::DEVICE_DRAINING_STATE);
  t.h.host(0).Exit("exited with 70");
  t.h.Settle();
  ASSERT_TRUE(told->done());
  EXPECT_TRUE(told->result().ok());
  EXPECT_TRUE(told->result().failures().empty());
  EXPECT_EQ(t.Device().info().state(), v1::DEVICE_UP);
  EXPECT_EQ(t.client->Invalidations().size(), before + 2) << "BEFORE and AFTER of the living one";
}

TEST(Lost, G13ADestroyWithNothingElseWaitsForItToo) {
  Lost t;
  t.Fault();
  auto first = t.h.Destroy("Fake:0", /*physical=*/true), second = t.h.Destroy("Fake:0");
  EXPECT_FALSE(first->done());
  EXPECT_TRUE(t.h.census.asked.empty());
  t.h.host(0).Exit("exited with 70");
  t.h.Settle();
  ASSERT_TRUE(first->done() && second->done());
  EXPECT_TRUE(first->result().ok());
  EXPECT_TRUE(second->result().joined());
}

TEST(Lost, G13ASessionsDestroyWaitsForItsOwnDomainsOnly) {
  Lost t;
  auto other = t.h.Client(2000);
  ASSERT_TRUE(other->GrantOf(other->Acquire(t.program, "add")));
  t.Fault();
  v1::ClientEvent event;
  event.mutable_destroy_device()->set_request_id(60);
  event.mutable_destroy_device()->mutable_device()->set_framework("Fake");
  t.client->Send(event);
  other->Send(event);
  EXPECT_TRUE(other->DoneOf(60));
  EXPECT_FALSE(t.client->DoneOf(60));
  t.h.host(0).Exit("exited with 70");
  t.h.Settle();
  ASSERT_TRUE(t.client->DoneOf(60));
  EXPECT_FALSE(t.client->DoneOf(60)->has_error());
}

TEST(Lost, ADestroyThatFindsItStuckKillsItAgainAndSaysSo) {
  Lost t;
  t.h.host(0).ignore_kill = true;
  t.Fault();
  t.h.executor.Advance(absl::Seconds(11));
  ASSERT_TRUE(t.h.events.Saw("host-stuck"));
  auto told = t.h.Destroy("Fake:0");
  EXPECT_FALSE(told->done());
  t.h.executor.Advance(Limits().kill_verify);
  ASSERT_TRUE(told->done());
  EXPECT_EQ(told->result().error().reason(), v1::STUCK);
  EXPECT_EQ(told->result().device_free(), "no");
  EXPECT_THAT(told->result().failures(), Contains(HasSubstr("STUCK")));
  EXPECT_EQ(t.Device().info().state(), v1::DEVICE_DOWN_STATE);
  // Nobody asked for it to stay down.
  t.h.host(0).Exit("killed by SIGKILL, late");
  t.h.Settle();
  EXPECT_EQ(t.Device().info().state(), v1::DEVICE_UP);
  auto late = t.h.Client();
  EXPECT_TRUE(late->GrantOf(late->Acquire(t.program, "add")));
}

TEST(Lost, ADeviceThatAnOperatorKeepsDownStaysDownWhenAStuckHostGoes) {
  Lost t;
  t.h.host(0).hold_teardowns = t.h.host(0).ignore_kill = true;
  auto told = t.h.Destroy("Fake:0", /*physical=*/false, /*stay_down=*/true);
  t.h.executor.Advance(absl::Minutes(1));
  ASSERT_EQ(told->result().error().reason(), v1::STUCK);
  t.h.host(0).Exit("killed by SIGKILL, late");
  t.h.Settle();
  EXPECT_EQ(t.Device().info().state(), v1::DEVICE_DOWN_STATE);
}

TEST(Lost, ShutdownWaitsForItsProcess) {
  Lost t;
  t.Fault();
  bool done = false;
  t.h.executor.Run([&] { t.h.service()->Shutdown([&] { done = true; }); });
  EXPECT_FALSE(done);
  t.h.host(0).Exit("exited with 70");
  t.h.Settle();
  EXPECT_TRUE(done);
}

TEST(Lost, ACoreThatGoesWhileADestroyWaitsForAnExitLeavesNothingBehind) {
  std::weak_ptr<Context> context;
  {
    Lost t;
    t.h.host(0).ignore_kill = true;
    context = static_cast<Context*>(t.h.host(0).observer)->weak_from_this();
    t.Fault();
    auto told = t.h.Destroy("Fake:0");
    EXPECT_FALSE(told->done());
    ASSERT_FALSE(context.expired());
  }
  EXPECT_TRUE(context.expired());
}

TEST(Lost, ACoreThatGoesWhileASessionsDestroyWaitsForAnExitLeavesNothingBehind) {
  std::weak_ptr<Context> context;
  {
    Lost t;
    t.h.host(0).ignore_kill = true;
    context = static_cast<Context*>(t.h.host(0).observer)->weak_from_this();
    t.Fault();
    v1::ClientEvent event;
    event.mutable_destroy_device()->set_request_id(60);
    event.mutable_destroy_device()->mutable_device()->set_framework("Fake");
    t.client->Send(event);
    EXPECT_FALSE(t.client->DoneOf(60));
    ASSERT_FALSE(context.expired());
  }
  EXPECT_TRUE(context.expired());
}

TEST(Lost, G8TheFirstRestartIsAtOnceTheSecondKeepsADistanceAndTheThirdDeathHolds) {
  Lost t;
  const absl::Duration distance = Limits().host_backoff;
  t.h.host(0).SayLost("first");
  EXPECT_TRUE(t.client->GrantOf(t.client->Acquire(t.program, "add")));
  t.h.host(1).SayLost("second");
  const uint64_t waits = t.client->Acquire(t.program, "add");
  t.h.executor.Advance(distance - absl::Milliseconds(1));
  EXPECT_EQ(t.h.hosts.hosts.size(), 2u);
  t.h.executor.Advance(absl::Milliseconds(1));
  EXPECT_TRUE(t.client->GrantOf(waits));
  t.h.host(2).SayLost("third");
  const uint64_t held = t.client->Acquire(t.program, "add");
  ASSERT_TRUE(t.client->FailureOf(held));
  EXPECT_EQ(ReasonOf(*t.client->FailureOf(held)), v1::CONTEXT_ON_HOLD);
  EXPECT_THAT(StatesOf(t.Device()), ElementsAre("LOST", "LOST", "LOST", "ON_HOLD"));
  for (size_t i = 0; i < 3; ++i) t.h.host(i).Exit("exited with 70");
  t.h.Settle();
  EXPECT_EQ(t.h.service()->Status().host_crashes(), 3u) << "each counted once";
}

TEST(Lost, TheDistanceIsFromTheLastDeathNotFromTheAsking) {
  Lost t;
  t.h.host(0).SayLost("first");
  EXPECT_TRUE(t.client->GrantOf(t.client->Acquire(t.program, "add")));
  t.h.host(1).SayLost("second");
  t.h.executor.Advance(Limits().host_backoff);
  EXPECT_TRUE(t.client->GrantOf(t.client->Acquire(t.program, "add")));
}

TEST(Lost, WhileDrainingTheDestroysAfterSaysSoOnceTheProcessIsGone) {
  Lost t;
  t.client->acks = false;
  auto told = t.h.Destroy("Fake:0");
  t.Fault();
  EXPECT_FALSE(told->done());
  EXPECT_EQ(t.client->Invalidations().size(), 1u) << "no LOST of its own";
  t.h.host(0).Exit("exited with 70");
  t.h.Settle();
  ASSERT_TRUE(told->done());
  ASSERT_EQ(t.client->Invalidations().size(), 2u);
  EXPECT_EQ(t.client->Invalidations()[1].phase(), v1::PHASE_AFTER);
  EXPECT_TRUE(t.client->Invalidations()[1].lost());
}

TEST(Lost, AClearUnderWayEndsWithTheContext) {
  Lost t;
  t.client->acks = false;
  auto clear = t.h.Clear();
  ASSERT_FALSE(clear->done());
  t.Fault();
  ASSERT_TRUE(clear->done());
  const std::vector<v1::Invalidate> steps = t.client->Invalidations();
  ASSERT_EQ(steps.size(), 3u);  // BEFORE of the clear, LOST, AFTER of the clear
  EXPECT_EQ(steps[1].kind(), v1::INVALIDATE_LOST);
  EXPECT_TRUE(steps[2].lost());
}

TEST(Lost, ALossOfTheWholeCardEndsTheOthersOnIt) {
  v1::ProbeReport one = FakeReport("Fake", 1), two = FakeReport("Other", 1);
  one.mutable_devices(0)->set_pci_address("0000:0a:00.0");
  two.mutable_devices(0)->set_pci_address("0000:0a:00.0");
  Harness h({}, {one, two});
  auto client = h.Client();
  const TestProgram program("kernel add ");
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add", "Fake:0")));
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add", "Other:0")));
  h.host(0).SayLost("Xid 79", /*physical=*/true);
  h.Settle();
  EXPECT_FALSE(h.host(0).killed) << "it ends by itself";
  EXPECT_TRUE(h.host(1).exited);
  EXPECT_EQ(client->Invalidations().size(), 2u);
}

TEST(Lost, QuotasCountWhatItHoldsUntilItIsGone) {
  Lost t;
  v1::HostUsage usage;
  usage.set_device_bytes(1000);
  t.h.executor.Run([&] { t.h.host(0).observer->OnHeartbeat(usage); });
  t.Fault();
  ASSERT_TRUE(t.client->GrantOf(t.client->Acquire(t.program, "add")));
  usage.set_device_bytes(24);
  t.h.executor.Run([&] { t.h.host(1).observer->OnHeartbeat(usage); });
  const auto used = [&t] {
    uint64_t bytes = 0;
    const v1::QuotaList quotas = t.h.service()->Quotas();
    for (const v1::Quota& quota : quotas.domains(0).quotas()) {
      if (quota.what() == "device memory of Fake:0") bytes += quota.used();
    }
    return bytes;
  };
  EXPECT_EQ(used(), 1024u);
  t.h.host(0).Exit("exited with 70");
  t.h.Settle();
  EXPECT_EQ(used(), 24u);
}

}  // namespace
}  // namespace kcache::core
