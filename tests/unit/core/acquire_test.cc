// From an Acquire to its Grant: sources, builds, contexts, handles.

#include "tests/unit/core/harness.h"

namespace kcache::core {
namespace {

using ::testing::HasSubstr;

std::string Message(const std::optional<absl::Status>& status) {
  return status ? std::string(status->message()) : "(no failure)";
}

TEST(Acquire, ColdAcquireUploadsCompilesLoadsAndGrants) {
  Harness h;
  auto client = h.Client();
  const TestProgram program("kernel add ");
  const uint64_t request = client->Acquire(program, "add");
  auto grant = client->GrantOf(request);
  ASSERT_TRUE(grant) << Message(client->FailureOf(request));
  EXPECT_EQ(grant->origin(), v1::GRANT_COMPILED);
  EXPECT_EQ(grant->lease().incarnation(), 1u);
  EXPECT_EQ(grant->lease().mac().size(), 16u);
  EXPECT_EQ(h.workers.sources.size(), 1u);
  EXPECT_EQ(h.hosts.hosts.size(), 1u);
}

TEST(Acquire, SecondAcquireIsWarmAndIntroducesTheContextOnce) {
  Harness h;
  auto client = h.Client();
  const TestProgram program("kernel add ");
  client->Acquire(program, "add");
  const uint64_t again = client->Acquire(program, "add");
  ASSERT_TRUE(client->GrantOf(again));
  EXPECT_EQ(client->GrantOf(again)->origin(), v1::GRANT_WARM);
  EXPECT_EQ(std::count_if(client->events.begin(), client->events.end(),
                          [](const auto& event) { return event.has_context_info(); }),
            1);
  EXPECT_EQ(h.host().built, 1);
}

TEST(Acquire, G4SixteenAskersOneCompile) {
  Harness h;
  h.workers.hold = true;
  const TestProgram program("kernel add ");
  std::vector<std::unique_ptr<TestClient>> clients;
  std::vector<uint64_t> requests;
  for (int i = 0; i < 16; ++i) {
    clients.push_back(h.Client());
    requests.push_back(clients.back()->Acquire(program, "add"));
  }
  ASSERT_EQ(h.workers.jobs.size(), 1u);
  h.workers.FinishAll();
  int compiled = 0;
  for (int i = 0; i < 16; ++i) {
    auto grant = clients[i]->GrantOf(requests[i]);
    ASSERT_TRUE(grant);
    compiled += grant->origin() == v1::GRANT_COMPILED;
  }
  EXPECT_EQ(compiled, 1);
  EXPECT_EQ(h.workers.sources.size(), 1u);
  int asked = 0;
  for (auto& client : clients) asked += client->NeedSources();
  EXPECT_EQ(asked, 1) << "one uploader at a time";
}

TEST(Acquire, G4DifferentKeysDoNotWaitForASlowOne) {
  Harness h;
  h.workers.hold = true;
  auto client = h.Client();
  const TestProgram slow("kernel slow "), fast("kernel fast ");
  const uint64_t slow_request = client->Acquire(slow, "slow");
  const uint64_t fast_request = client->Acquire(fast, "fast");
  ASSERT_EQ(h.workers.jobs.size(), 2u);
  h.workers.Finish(h.workers.jobs[1].id, h.workers.Good(h.workers.jobs[1].id));
  EXPECT_TRUE(client->GrantOf(fast_request));
  EXPECT_FALSE(client->GrantOf(slow_request));
}

TEST(Acquire, S3WorkerDiesOnceAndTheBuildGoesOn) {
  Harness h;
  h.workers.hold = true;
  const TestProgram program("kernel add ");
  auto first = h.Client(), second = h.Client();
  const uint64_t a = first->Acquire(program, "add");
  const uint64_t b = second->Acquire(program, "add");
  h.workers.Crash(h.workers.jobs[0].id, CompileOutcome::End::kCrashed, "killed by SIGSEGV");
  ASSERT_EQ(h.workers.jobs.size(), 1u) << "one replacement";
  h.workers.FinishAll();
  EXPECT_TRUE(first->GrantOf(a));
  EXPECT_TRUE(second->GrantOf(b));
}

TEST(Acquire, G9SecondDeathFailsAllAndRefusesTheKeyForAWhile) {
  Harness h;
  h.workers.hold = true;
  const TestProgram program("kernel add ");
  auto first = h.Client(), second = h.Client();
  const uint64_t a = first->Acquire(program, "add");
  const uint64_t b = second->Acquire(program, "add");
  h.workers.Crash(h.workers.jobs[0].id, CompileOutcome::End::kCrashed, "killed by SIGSEGV");
  h.workers.Crash(h.workers.jobs[0].id, CompileOutcome::End::kCrashed, "killed by SIGSEGV");
  EXPECT_EQ(ReasonOf(*first->FailureOf(a)), v1::COMPILE_CRASHED);
  EXPECT_EQ(ReasonOf(*second->FailureOf(b)), v1::COMPILE_CRASHED);
  const uint64_t refused = first->Acquire(program, "add");
  EXPECT_EQ(ReasonOf(*first->FailureOf(refused)), v1::COMPILE_REFUSED);
  EXPECT_EQ(h.service()->Refusals().refusals_size(), 1);
  EXPECT_TRUE(h.workers.jobs.empty());
  h.executor.Advance(absl::Minutes(11));
  first = h.Client();
  const uint64_t again = first->Acquire(program, "add");
  h.workers.FinishAll();
  EXPECT_TRUE(first->GrantOf(again));
}

TEST(Acquire, G9NodePressureNeverCounts) {
  Harness h;
  h.workers.hold = true;
  const TestProgram program("kernel add ");
  auto client = h.Client();
  const uint64_t request = client->Acquire(program, "add");
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(h.workers.jobs.size(), 1u);
    h.workers.Crash(h.workers.jobs[0].id, CompileOutcome::End::kNotCounted, "node out of memory");
  }
  h.workers.FinishAll();
  EXPECT_TRUE(client->GrantOf(request));
  EXPECT_EQ(h.service()->Refusals().refusals_size(), 0);
}

TEST(Acquire, G14ADigestAloneIsRefusedAndLogged) {
  Harness h;
  auto owner = h.Client(1000), stranger = h.Client(1001);
  const TestProgram program("kernel add ");
  ASSERT_TRUE(owner->GrantOf(owner->Acquire(program, "add")));
  stranger->uploads = false;
  const uint64_t request = stranger->Acquire(program, "add");
  h.executor.Advance(absl::Seconds(30));
  ASSERT_TRUE(stranger->FailureOf(request));
  EXPECT_EQ(ReasonOf(*stranger->FailureOf(request)), v1::NEED_SOURCE);
  EXPECT_TRUE(h.events.Saw("source-not-shown"));
}

TEST(Acquire, G14AnArtifactThatWasNotGrantedIsRefusedAndLogged) {
  Harness h;
  auto owner = h.Client(1000), stranger = h.Client(1001);
  const TestProgram program("kernel add ");
  const uint64_t request = owner->AcquireArtifact(program);
  ASSERT_TRUE(owner->GrantOf(request));
  v1::FetchRequest fetch;
  fetch.mutable_credentials()->set_instance(stranger->welcome().instance());
  fetch.mutable_credentials()->set_session_id(stranger->session_id());
  fetch.mutable_credentials()->set_session_key(stranger->welcome().session_key());
  fetch.set_artifact_key(owner->GrantOf(request)->artifact_key());
  EXPECT_EQ(ReasonOf(h.service()->Fetch(stranger->peer(), fetch).status()), v1::PERMISSION_DENIED);
  EXPECT_TRUE(h.events.Saw("foreign-artifact"));
}

// With all that its client knows: a session is one process's, also among processes of one user.
TEST(Acquire, G14ASessionIsNoOtherProcesss) {
  Harness h;
  auto owner = h.Client(1000, 4711);
  Peer other = owner->peer();
  other.pid = 4712;
  v1::FetchRequest fetch;
  fetch.mutable_credentials()->set_instance(owner->welcome().instance());
  fetch.mutable_credentials()->set_session_id(owner->session_id());
  fetch.mutable_credentials()->set_session_key(owner->welcome().session_key());
  fetch.set_artifact_key(std::string(32, 'k'));
  EXPECT_EQ(ReasonOf(h.service()->Fetch(other, fetch).status()), v1::PERMISSION_DENIED);
  EXPECT_TRUE(h.events.Saw("foreign-session"));
}

TEST(Acquire, G4ADyingClientDisturbsNobody) {
  Harness h;
  h.workers.hold = true;
  const TestProgram program("kernel add ");
  auto first = h.Client(), second = h.Client();
  first->Acquire(program, "add");
  const uint64_t b = second->Acquire(program, "add");
  h.executor.Run([&] { h.service()->ProcessExited(first->peer()); });
  first->CutStream();
  h.workers.FinishAll();
  EXPECT_TRUE(second->GrantOf(b));
}

TEST(Acquire, UploaderThatDiesHandsOn) {
  Harness h;
  const TestProgram program("kernel add ");
  auto first = h.Client(), second = h.Client();
  first->uploads = false;
  first->Acquire(program, "add");
  const uint64_t b = second->Acquire(program, "add");
  EXPECT_EQ(second->NeedSources(), 0);
  h.executor.Run([&] { h.service()->ProcessExited(first->peer()); });
  first->CutStream();
  EXPECT_EQ(second->NeedSources(), 1);
  EXPECT_TRUE(second->GrantOf(b));
}

TEST(Acquire, UploaderThatStallsHandsOn) {
  Harness h;
  const TestProgram program("kernel add ");
  auto first = h.Client(), second = h.Client();
  first->uploads = false;
  const uint64_t a = first->Acquire(program, "add");
  const uint64_t b = second->Acquire(program, "add");
  h.executor.Advance(absl::Milliseconds(1001));
  EXPECT_EQ(second->NeedSources(), 1);
  EXPECT_TRUE(second->GrantOf(b));
  EXPECT_TRUE(first->GrantOf(a)) << "shown by somebody of its own domain";
}

TEST(Acquire, G14ADigestAloneOpensNothing) {
  Harness h;
  const TestProgram program("kernel add ");
  auto alice = h.Client(1000);
  ASSERT_TRUE(alice->GrantOf(alice->Acquire(program, "add")));
  auto mallory = h.Client(2000);
  mallory->uploads = false;
  const uint64_t request = mallory->Acquire(program, "add");
  EXPECT_FALSE(mallory->GrantOf(request));
  EXPECT_EQ(mallory->NeedSources(), 1);
  // With the source in hand it is a hit: no second compile.
  ASSERT_TRUE(mallory->Upload(program).ok());
  h.Settle();
  EXPECT_TRUE(mallory->GrantOf(request));
  EXPECT_EQ(h.workers.sources.size(), 1u);
}

TEST(Acquire, G14SubmittedBinariesStayInTheirDomain) {
  Harness h;
  const TestProgram program("kernel add ", "binary");
  auto alice = h.Client(1000);
  ASSERT_TRUE(alice->GrantOf(alice->Acquire(program, "add")));
  auto bob = h.Client(2000);
  ASSERT_TRUE(bob->GrantOf(bob->Acquire(program, "add")));
  EXPECT_EQ(h.workers.sources.size(), 2u) << "an artifact of their own each";
}

TEST(Acquire, DomainsHaveContextsOfTheirOwn) {
  Harness h;
  const TestProgram program("kernel add ");
  auto alice = h.Client(1000), bob = h.Client(2000), boxed = h.Client(1000, 0, "box");
  auto a = alice->GrantOf(alice->Acquire(program, "add"));
  auto b = bob->GrantOf(bob->Acquire(program, "add"));
  auto c = boxed->GrantOf(boxed->Acquire(program, "add"));
  ASSERT_TRUE(a && b && c);
  EXPECT_NE(a->context_id(), b->context_id());
  EXPECT_NE(a->context_id(), c->context_id());
  EXPECT_EQ(h.hosts.hosts.size(), 3u);
}

TEST(Acquire, CompileErrorsReachTheCallerAndCacheNothing) {
  Harness h;
  auto client = h.Client();
  const TestProgram program("kernel add error");
  const uint64_t request = client->Acquire(program, "add");
  EXPECT_EQ(ReasonOf(*client->FailureOf(request)), v1::COMPILE_FAILED);
  EXPECT_THAT(Message(client->FailureOf(request)), HasSubstr("line 1"));
  client->Acquire(program, "add");
  EXPECT_EQ(h.workers.sources.size(), 2u);
}

TEST(Acquire, UnknownEntryNamesThoseThatExist) {
  Harness h;
  auto client = h.Client();
  const TestProgram program("kernel add kernel sub ");
  const uint64_t request = client->Acquire(program, "mul");
  EXPECT_EQ(ReasonOf(*client->FailureOf(request)), v1::UNKNOWN_ENTRY);
  EXPECT_THAT(Message(client->FailureOf(request)), HasSubstr("add, sub"));
}

TEST(Acquire, UnknownDeviceNamesThoseThatExist) {
  Harness h;
  auto client = h.Client();
  const uint64_t request = client->Acquire(TestProgram("kernel add "), "add", "Fake:7");
  EXPECT_EQ(ReasonOf(*client->FailureOf(request)), v1::UNKNOWN_DEVICE);
  EXPECT_THAT(Message(client->FailureOf(request)), HasSubstr("Fake:0, Fake:1"));
}

TEST(Acquire, ManyEntriesOfOneProgramAreOneCompileAndOneLoad) {
  Harness h;
  h.workers.hold = true;
  auto client = h.Client();
  std::string source;
  for (int i = 0; i < 50; ++i) absl::StrAppend(&source, "kernel k", i, " ");
  const TestProgram program(source);
  std::vector<uint64_t> requests;
  for (int i = 0; i < 50; ++i) requests.push_back(client->Acquire(program, absl::StrCat("k", i)));
  h.workers.FinishAll();
  std::set<uint32_t> slots;
  for (uint64_t request : requests) {
    ASSERT_TRUE(client->GrantOf(request));
    slots.insert(client->GrantOf(request)->lease().slot());
  }
  EXPECT_EQ(slots.size(), 50u);
  EXPECT_EQ(h.workers.sources.size(), 1u);
  EXPECT_EQ(h.service()->Status().loads(), 1u);
}

TEST(Acquire, S30InteractiveGoesBeforePrewarm) {
  Harness h;
  h.workers.hold = true;
  h.workers.slots_ = 1;
  auto client = h.Client();
  const TestProgram running("kernel r "), prewarm("kernel p "), interactive("kernel i ");
  client->Acquire(running, "r");
  client->Acquire(prewarm, "p", "Fake:0", v1::PRIORITY_PREWARM);
  client->Acquire(interactive, "i");
  ASSERT_EQ(h.workers.jobs.size(), 1u);
  h.workers.Finish(h.workers.jobs[0].id, h.workers.Good(h.workers.jobs[0].id));
  ASSERT_EQ(h.workers.jobs.size(), 1u);
  EXPECT_EQ(h.workers.jobs[0].request->source(), "kernel i ");
}

TEST(Acquire, G11LeasesAreBoundedAndTheLimitIsNamed) {
  Options options;
  options.limits.max_leases_per_session = 2;
  Harness h(options);
  auto client = h.Client();
  const TestProgram program("kernel a kernel b kernel c ");
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "a")));
  auto b = client->GrantOf(client->Acquire(program, "b"));
  ASSERT_TRUE(b);
  const uint64_t third = client->Acquire(program, "c");
  EXPECT_EQ(ReasonOf(*client->FailureOf(third)), v1::LIMIT_EXCEEDED);
  EXPECT_THAT(Message(client->FailureOf(third)), HasSubstr("max_leases_per_session is 2"));
  client->Release(*b);
  EXPECT_TRUE(client->GrantOf(client->Acquire(program, "c")));
}

TEST(Acquire, S15AnotherCompilerIsAnotherKey) {
  Harness h;
  auto client = h.Client();
  const TestProgram program("kernel add ");
  ASSERT_TRUE(client->GrantOf(client->Acquire(program, "add")));
  h.prober.reports[0].mutable_devices(0)->set_compiler_fingerprint("compiler-2");
  h.executor.Run([&] { h.service()->StartRescan(Peer{}, [](const v1::OperationUpdate&) {}); });
  h.executor.Advance(absl::Seconds(1));
  auto again = client->GrantOf(client->Acquire(program, "add"));
  ASSERT_TRUE(again);
  EXPECT_EQ(again->origin(), v1::GRANT_COMPILED);
  EXPECT_EQ(h.workers.sources.size(), 2u);
}

TEST(Acquire, ArtifactOnlyNeedsNoContext) {
  Harness h;
  auto client = h.Client();
  const TestProgram program("kernel add ");
  const uint64_t request = client->AcquireArtifact(program);
  ASSERT_TRUE(client->GrantOf(request));
  EXPECT_EQ(client->GrantOf(request)->artifact().kernels_size(), 1);
  EXPECT_TRUE(h.hosts.hosts.empty());
}

TEST(Acquire, ContextAloneNeedsNoProgram) {
  Harness h;
  auto client = h.Client();
  const uint64_t request = client->AcquireContext();
  ASSERT_TRUE(client->GrantOf(request));
  EXPECT_NE(client->GrantOf(request)->context_id(), 0u);
}

TEST(Acquire, IdleContextsAreRetiredAndComeBackUnderANewGeneration) {
  Harness h;
  auto client = h.Client();
  const TestProgram program("kernel add ");
  auto grant = client->GrantOf(client->Acquire(program, "add"));
  ASSERT_TRUE(grant);
  for (int i = 0; i < 30; ++i) {
    client->Renew();
    h.executor.Advance(absl::Seconds(5));
  }
  EXPECT_FALSE(h.host().exited) << "a lease keeps it";
  client->Release(*grant);
  for (int i = 0; i < 30; ++i) {
    client->Renew();
    h.executor.Advance(absl::Seconds(5));
  }
  EXPECT_TRUE(h.host().exited);
  auto again = client->GrantOf(client->Acquire(program, "add"));
  ASSERT_TRUE(again);
  EXPECT_NE(again->context_id(), grant->context_id());
  EXPECT_EQ(h.host(1).spec.open.context().generation(), 2u);
}

TEST(Acquire, AHostThatCannotStartIsATypedFailure) {
  Harness h;
  h.hosts.start_status = absl::UnavailableError("no such program");
  auto client = h.Client();
  const uint64_t request = client->Acquire(TestProgram("kernel add "), "add");
  ASSERT_TRUE(client->FailureOf(request));
  EXPECT_THAT(Message(client->FailureOf(request)), HasSubstr("no such program"));
}

TEST(Acquire, G8ThreeCrashesInAMinutePutTheContextOnHold) {
  Harness h;
  auto client = h.Client(), other = h.Client(2000);
  const TestProgram program("kernel add ");
  for (int i = 0; i < 3; ++i) {
    const uint64_t request = client->Acquire(program, "add");
    h.executor.Advance(absl::Milliseconds(500));  // a backoff, from the second restart on
    ASSERT_TRUE(client->GrantOf(request));
    h.hosts.hosts.back()->Exit("killed by SIGSEGV");
    h.Settle();
  }
  const uint64_t held = client->Acquire(program, "add");
  EXPECT_EQ(ReasonOf(*client->FailureOf(held)), v1::CONTEXT_ON_HOLD);
  EXPECT_TRUE(other->GrantOf(other->Acquire(program, "add"))) << "another domain's is not";
  v1::DeviceUpRequest up;
  up.mutable_device()->set_framework("Fake");
  up.set_clear_hold(true);
  h.executor.Run(
      [&] { h.service()->StartDeviceUp(Peer{}, up, [](const v1::OperationUpdate&) {}); });
  EXPECT_TRUE(client->GrantOf(client->Acquire(program, "add")));
}

TEST(Acquire, AnotherProtocolVersionIsToldWhichOneIsSpoken) {
  Harness h;
  TestClient client(&h, Peer{.pid = 77});
  client.hello_version = 99;
  client.Connect();
  ASSERT_TRUE(client.FailureOf(0));
  EXPECT_EQ(ReasonOf(*client.FailureOf(0)), v1::UNSUPPORTED_PROTOCOL_VERSION);
  EXPECT_THAT(Message(client.FailureOf(0)), HasSubstr("99"));
  EXPECT_TRUE(client.closed());
}

TEST(Acquire, ASecondHelloEndsNothing) {
  Harness h;
  auto client = h.Client();
  v1::ClientEvent hello;
  hello.mutable_hello()->set_version(v1::PROTOCOL_VERSION_1);
  client->Send(hello);
  EXPECT_TRUE(client->FailureOf(0));
  EXPECT_TRUE(client->GrantOf(client->Acquire(TestProgram("kernel add "), "add")));
}

}  // namespace
}  // namespace kcache::core
