// Bounds of a trust domain: compile time, artifact bytes, leases; and what operators see of them.

#include "daemon/core/compile_times.h"
#include "tests/unit/core/harness.h"

namespace kcache::core {
namespace {

using ::testing::HasSubstr;

Options WithLimits(const std::function<void(Limits*)>& change) {
  Options options;
  options.limits.session_ttl = absl::Hours(2);  // nobody renews while a test's time passes
  change(&options.limits);
  return options;
}

// LIMIT_EXCEEDED that names the limit, or what else the client was told.
std::string LimitOf(const TestClient& client, uint64_t request) {
  const auto failure = client.FailureOf(request);
  if (!failure) return client.GrantOf(request) ? "(granted)" : "(unanswered)";
  if (ReasonOf(*failure) != v1::LIMIT_EXCEEDED) return failure->ToString();
  return DetailsOf(*failure)["limit"];
}

uint64_t UsedOf(Harness* h, const std::string& domain, const std::string& what) {
  const v1::QuotaList list = h->service()->Quotas();
  for (const v1::DomainQuotas& one : list.domains()) {
    if (one.domain() != domain) continue;
    for (const v1::Quota& quota : one.quotas()) {
      if (quota.what() == what) return quota.used();
    }
  }
  ADD_FAILURE() << "no quota '" << what << "' of " << domain;
  return 0;
}

TEST(CompileTimes, SlideOutOfTheWindow) {
  ManualClock clock;
  ManualExecutor executor(&clock);
  CompileTimes times(&clock);
  times.Charge("a", absl::Seconds(30));
  executor.Advance(absl::Minutes(4));
  times.Charge("a", absl::Seconds(40));
  times.Charge("b", absl::Seconds(5));
  EXPECT_EQ(times.Spent("a"), absl::Seconds(70));
  EXPECT_EQ(times.Spent("b"), absl::Seconds(5));
  EXPECT_EQ(times.BelowIn("a", absl::Seconds(60)), absl::Minutes(6));
  EXPECT_EQ(times.BelowIn("a", absl::Seconds(40)), absl::Minutes(10));
  EXPECT_EQ(times.BelowIn("a", absl::Seconds(100)), absl::ZeroDuration());
  executor.Advance(absl::Minutes(6));
  EXPECT_EQ(times.Spent("a"), absl::Seconds(40));
  executor.Advance(absl::Minutes(4));
  EXPECT_EQ(times.Spent("a"), absl::ZeroDuration());
  EXPECT_EQ(times.Spent("b"), absl::ZeroDuration());
}

TEST(CompileTimes, CompilesThatTookNoTimeLeaveNothing) {
  ManualClock clock;
  ManualExecutor executor(&clock);
  CompileTimes times(&clock);
  for (int i = 0; i < 3; ++i) times.Charge("a", absl::ZeroDuration());
  executor.Advance(CompileTimes::kWindow);
  EXPECT_EQ(times.Spent("a"), absl::ZeroDuration());
}

TEST(Quota, G11CompileTimeOfADomainIsBounded) {
  Harness h(WithLimits([](Limits* limits) {
    limits->max_compile_time_per_domain = absl::Seconds(10);
  }));
  h.workers.hold = true;
  auto mine = h.Client(1000), other = h.Client(1001);
  const TestProgram slow("kernel slow "), next("kernel next "), others("kernel others ");
  const uint64_t first = mine->Acquire(slow, "slow");
  h.executor.Advance(absl::Seconds(12));
  EXPECT_EQ(UsedOf(&h, "uid:1000", "compile time"), 12'000u) << "what runs counts";
  h.workers.FinishAll();
  ASSERT_TRUE(mine->GrantOf(first)) << "what runs is not ended";

  const uint64_t refused = mine->Acquire(next, "next");
  EXPECT_EQ(LimitOf(*mine, refused), "max_compile_time_per_domain");
  EXPECT_THAT(std::string(mine->FailureOf(refused)->message()),
              testing::AllOf(HasSubstr("uid:1000"), HasSubstr("12s"), HasSubstr("is 10s"),
                             HasSubstr("in 10m")));
  EXPECT_TRUE(h.workers.jobs.empty());
  // A hit costs no compile.
  EXPECT_EQ(LimitOf(*mine, mine->Acquire(slow, "slow")), "(granted)");
  // Others are not concerned.
  const uint64_t theirs = other->Acquire(others, "others");
  h.workers.FinishAll();
  EXPECT_TRUE(other->GrantOf(theirs));

  h.executor.Advance(CompileTimes::kWindow);
  const uint64_t again = mine->Acquire(next, "next");
  h.workers.FinishAll();
  EXPECT_TRUE(mine->GrantOf(again));
}

TEST(Quota, G11WhatIsInLineWhenTheTimeIsUsedUpIsRefusedAtItsTurn) {
  Harness h(WithLimits([](Limits* limits) {
    limits->max_compile_time_per_domain = absl::Seconds(10);
  }));
  h.workers.hold = true;
  h.workers.slots_ = 1;
  auto mine = h.Client(1000), other = h.Client(1001);
  const TestProgram slow("kernel slow "), alone("kernel alone "), shared("kernel shared ");
  mine->Acquire(slow, "slow");
  const uint64_t waiting = mine->Acquire(alone, "alone");
  const uint64_t joined = mine->Acquire(shared, "shared");
  const uint64_t payer = other->Acquire(shared, "shared");
  h.executor.Advance(absl::Seconds(11));
  h.workers.FinishAll();
  EXPECT_EQ(LimitOf(*mine, waiting), "max_compile_time_per_domain");
  // Somebody else waits for the same, and pays.
  EXPECT_TRUE(mine->GrantOf(joined));
  EXPECT_TRUE(other->GrantOf(payer));
}

TEST(Quota, G11ArtifactBytesOfADomainAreBounded) {
  Harness h(WithLimits([](Limits* limits) { limits->max_artifact_bytes_per_domain = 10; }));
  auto mine = h.Client(1000), other = h.Client(1001);
  const TestProgram first("kernel first "), second("kernel second ");
  EXPECT_EQ(LimitOf(*mine, mine->Acquire(first, "first")), "(granted)");
  EXPECT_GT(UsedOf(&h, "uid:1000", "artifacts"), 10u);
  EXPECT_EQ(LimitOf(*mine, mine->Acquire(second, "second")), "max_artifact_bytes_per_domain");
  EXPECT_EQ(LimitOf(*other, other->Acquire(second, "second")), "(granted)");
  // Compiled for somebody else: a hit.
  EXPECT_EQ(LimitOf(*mine, mine->Acquire(second, "second")), "(granted)");
}

TEST(Quota, G11LeasesOfADomainAreBounded) {
  Harness h(WithLimits([](Limits* limits) { limits->max_leases_per_domain = 2; }));
  auto mine = h.Client(1000), mine_too = h.Client(1000), other = h.Client(1001);
  const TestProgram program("kernel a kernel b kernel c ");
  const uint64_t a = mine->Acquire(program, "a");
  EXPECT_EQ(LimitOf(*mine, a), "(granted)");
  EXPECT_EQ(LimitOf(*mine_too, mine_too->Acquire(program, "b", "Fake:1")), "(granted)");
  EXPECT_EQ(UsedOf(&h, "uid:1000", "leases"), 2u);
  EXPECT_EQ(LimitOf(*mine, mine->Acquire(program, "c")), "max_leases_per_domain");
  EXPECT_EQ(LimitOf(*mine, mine->Acquire(program, "a")), "(granted)") << "it holds that one already";
  EXPECT_EQ(LimitOf(*other, other->Acquire(program, "c")), "(granted)");
  mine->Release(*mine->GrantOf(a));
  EXPECT_EQ(LimitOf(*mine, mine->Acquire(program, "c")), "(granted)");
}

// The host keeps this bound; it is told with the first request.
TEST(Quota, G11DeviceMemoryOfADomainIsTheHostsToBound) {
  Harness h(WithLimits([](Limits* limits) {
    limits->max_device_bytes_per_domain = 3 << 20;
    limits->max_device_bytes_per_session = 2 << 20;
  }));
  auto mine = h.Client(1000), other = h.Client(1001);
  const TestProgram program("kernel add ");
  ASSERT_EQ(LimitOf(*mine, mine->Acquire(program, "add")), "(granted)");
  ASSERT_EQ(LimitOf(*other, other->Acquire(program, "add")), "(granted)");
  for (size_t host = 0; host < 2; ++host) {
    EXPECT_EQ(h.host(host).spec.open.limits().max_device_bytes(), 3u << 20);
    EXPECT_EQ(h.host(host).spec.open.limits().max_device_bytes_per_session(), 2u << 20);
  }
}

TEST(Quota, TheReportNamesEveryBoundWithItsOption) {
  Harness h(WithLimits([](Limits* limits) {
    limits->max_compile_time_per_domain = absl::Seconds(90);
    limits->max_device_bytes_per_domain = 1 << 20;
  }));
  auto client = h.Client(1000);
  client->Acquire(TestProgram("kernel add "), "add");
  v1::HostUsage usage;
  usage.set_device_bytes(4096);
  v1::SessionUsage* own = usage.add_per_session();
  own->set_session_id(client->session_id());
  own->set_device_bytes(4000);
  h.host().observer->OnHeartbeat(usage);

  const v1::QuotaList list = h.service()->Quotas();
  ASSERT_EQ(list.domains_size(), 1);
  std::map<std::string, v1::Quota> by_what;
  for (const v1::Quota& quota : list.domains(0).quotas()) by_what[quota.what()] = quota;
  EXPECT_EQ(by_what["compile time"].limit(), 90'000u);
  EXPECT_EQ(by_what["compile time"].option(), "limits.max_compile_time_per_domain");
  EXPECT_EQ(by_what["device memory of Fake:0"].used(), 4096u);
  EXPECT_EQ(by_what["device memory of Fake:0"].limit(), 1u << 20);
  EXPECT_EQ(by_what["leases"].used(), 1u);
  ASSERT_EQ(list.domains(0).sessions_size(), 1);
  bool found = false;
  for (const v1::Quota& quota : list.domains(0).sessions(0).quotas()) {
    found |= quota.what() == "device memory" && quota.used() == 4000;
  }
  EXPECT_TRUE(found);
  EXPECT_EQ(h.service()->Sessions({}).sessions(0).device_bytes(), 4000u);
}

// Sessions as domains: what is known of one goes with it.
TEST(Quota, ASessionDomainLeavesNothingBehind) {
  Options options = WithLimits([](Limits*) {});
  options.domain_policy = DomainPolicy::kSession;
  Harness h(options);
  auto client = h.Client(1000, 4711);
  ASSERT_TRUE(client->GrantOf(client->Acquire(TestProgram("kernel add "), "add")));
  const Peer peer = client->peer();
  h.executor.Run([&] { h.service()->ProcessExited(peer); });
  client->CutStream();
  h.executor.Advance(absl::Minutes(3));  // the context is retired
  EXPECT_EQ(h.service()->Quotas().domains_size(), 0);
}

}  // namespace
}  // namespace kcache::core
