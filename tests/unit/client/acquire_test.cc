// Acquiring, memoizing and giving back, over a daemon in the same process.

#include <sys/wait.h>
#include <unistd.h>

#include "client_fixture.h"

namespace kcache::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AcquireTest : public ClientTest {};

TEST_F(AcquireTest, ASecondAcquireMakesNoCall) {
  Connect();
  const Kernel first = MustAcquire();
  EXPECT_EQ(daemon_->acquires().size(), 1u);
  const size_t messages = daemon_->messages();
  const Kernel second = MustAcquire();
  EXPECT_EQ(daemon_->messages(), messages);
  EXPECT_EQ(first.state(), second.state());
  EXPECT_EQ(client_->statistics().memo_hits, 1u);
}

TEST_F(AcquireTest, DifferentThingsAreNotMistakenForEachOther) {
  Connect();
  const Kernel base = MustAcquire();
  EXPECT_NE(base.state(), MustAcquire("other").state());
  EXPECT_NE(base.state(), MustAcquire("add", kOther).state());
  KernelRequest special = Request();
  special.specialization.constants = {{.id = 1, .value = 2}};
  ASSERT_TRUE(client_->Acquire(special).ok());
  special.specialization.constants[0].value = 3;
  ASSERT_TRUE(client_->Acquire(special).ok());
  KernelRequest changed = Request();
  changed.program = MakeProgram("changed");
  EXPECT_NE(base.state(), client_->Acquire(changed)->state());
  EXPECT_EQ(daemon_->acquires().size(), 6u);
}

TEST_F(AcquireTest, ABatchIsOneMessageAndEachHasItsOwnOutcome) {
  Connect();
  MustAcquire("memoized");
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (!event.has_acquire() || event.acquire().entry() != "missing") return false;
    daemon_->Fail(event.acquire().request_id(),
                  MakeError(v1::UNKNOWN_ENTRY, "no entry; there are add, sub"));
    return true;
  };
  daemon_->ForgetEvents();
  const std::vector<KernelRequest> requests = {
      Request("add"), Request("missing"), Request("memoized"),
      Request("sub"), Request("add"),     {.program = Program(), .entry = "x", .device = kDevice}};
  const auto kernels = client_->AcquireBatch(requests);
  EXPECT_EQ(daemon_->messages(), 1u);
  EXPECT_EQ(daemon_->acquires().size(), 3u);
  ASSERT_EQ(kernels.size(), 6u);
  EXPECT_TRUE(kernels[0].ok());
  EXPECT_EQ(FailureReason(kernels[1].status()), Reason::kUnknownEntry);
  EXPECT_TRUE(kernels[2].ok());
  EXPECT_TRUE(kernels[3].ok());
  EXPECT_EQ(kernels[4]->state(), kernels[0]->state());
  EXPECT_EQ(FailureReason(kernels[5].status()), Reason::kBadRequest);
}

TEST_F(AcquireTest, AskersOfOneKernelShareOneRequestAndItsFailure) {
  Connect();
  std::vector<v1::Acquire> held;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (event.has_acquire()) held.push_back(event.acquire());
    return event.has_acquire();
  };
  std::vector<absl::Status> outcomes;
  for (int i = 0; i < 8; ++i) {
    client_->AcquireAsync(Request(), [&](auto kernel) { outcomes.push_back(kernel.status()); });
  }
  ASSERT_EQ(held.size(), 1u);
  daemon_->Fail(held[0].request_id(), MakeError(v1::COMPILE_FAILED, "line 3: syntax error"));
  ASSERT_EQ(outcomes.size(), 8u);
  for (const absl::Status& outcome : outcomes) {
    EXPECT_EQ(FailureReason(outcome), Reason::kCompileFailed);
  }
  daemon_->intercept = nullptr;
  EXPECT_TRUE(client_->Acquire(Request()).ok()) << "failures are not memoized";
}

TEST_F(AcquireTest, AWaiterGoesOnWhenTheOneWhoAskedGivesUp) {
  Connect();
  std::vector<v1::Acquire> held;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (event.has_acquire()) held.push_back(event.acquire());
    return event.has_acquire();
  };
  absl::Status hasty, patient = absl::UnknownError("none");
  KernelRequest request = Request();
  request.timeout = 1s;
  client_->AcquireAsync(request, [&](auto kernel) { hasty = kernel.status(); });
  client_->AcquireAsync(Request(), [&](auto kernel) { patient = kernel.status(); });
  timers_->Advance(1s);
  EXPECT_EQ(FailureReason(hasty), Reason::kDeadlineExceeded);
  ASSERT_EQ(held.size(), 2u) << "asked again for the other";
  daemon_->Grant(held[1]);
  EXPECT_TRUE(patient.ok()) << patient;
}

TEST_F(AcquireTest, AWaiterMayGiveUpAlone) {
  Connect();
  std::vector<v1::Acquire> held;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (event.has_acquire()) held.push_back(event.acquire());
    return event.has_acquire();
  };
  absl::Status patient = absl::UnknownError("none"), hasty;
  client_->AcquireAsync(Request(), [&](auto kernel) { patient = kernel.status(); });
  KernelRequest request = Request();
  request.timeout = 1s;
  client_->AcquireAsync(request, [&](auto kernel) { hasty = kernel.status(); });
  timers_->Advance(1s);
  EXPECT_EQ(FailureReason(hasty), Reason::kDeadlineExceeded);
  daemon_->Grant(held[0]);
  EXPECT_TRUE(patient.ok());
}

TEST_F(AcquireTest, TheSourceIsUploadedOnceWhenAskedFor) {
  daemon_->has_source = false;
  Connect();
  program_ = *ProgramBuilder("fake", "the source").AddHeader("a.h", "the header").Build();
  MustAcquire("add");
  EXPECT_THAT(daemon_->uploaded(), ElementsAre("the source", "the header"));
  MustAcquire("sub");
  EXPECT_EQ(client_->statistics().uploads, 1u);
}

TEST_F(AcquireTest, OnlyWhatIsMissingIsUploaded) {
  daemon_->has_source = false;
  daemon_->missing = {Digest::Of("the header").str()};
  Connect();
  program_ = *ProgramBuilder("fake", "the source").AddHeader("a.h", "the header").Build();
  MustAcquire();
  EXPECT_THAT(daemon_->uploaded(), ElementsAre("the header"));
}

TEST_F(AcquireTest, AProgramThatTheDaemonDoesNotTakeFailsItsAcquire) {
  daemon_->has_source = false;
  daemon_->upload_failure =
      MakeError(v1::LIMIT_EXCEEDED, "the source is too large", {{"limit", "max_source_bytes"}});
  Connect();
  const absl::Status refused = client_->Acquire(Request()).status();
  EXPECT_EQ(FailureReason(refused), Reason::kLimitExceeded);
  EXPECT_EQ(FailureDetail(refused, "limit"), "max_source_bytes");
}

TEST_F(AcquireTest, TheLastShareReleasesBehindWhatWasLaunched) {
  options_.memo_capacity = 0;
  Connect();
  {
    const Kernel kernel = MustAcquire();
    const Kernel copy = kernel;  // NOLINT(performance-unnecessary-copy-initialization)
    ASSERT_TRUE(copy.Launch(GetQueue(kDevice, 2), LaunchConfig::Global(1)).ok());
    timers_->Advance(10ms);
    EXPECT_THAT(daemon_->releases(), IsEmpty());
  }
  timers_->Advance(10ms);
  const auto releases = daemon_->releases();
  ASSERT_EQ(releases.size(), 1u);
  EXPECT_EQ(releases[0].release().context_id(), daemon_->context().context_id());
  EXPECT_EQ(releases[0].release().lease().slot(), 1u);
  ASSERT_EQ(releases[0].release().positions_size(), 1);
  EXPECT_EQ(releases[0].release().positions(0).queue(), 2u);
  EXPECT_EQ(releases[0].release().positions(0).sequence(), 1u);
}

TEST_F(AcquireTest, TheMemoKeepsALeaseUntilItIsForgotten) {
  Connect();
  MustAcquire();
  timers_->Advance(10ms);
  EXPECT_THAT(daemon_->releases(), IsEmpty());
  client_->ForgetKernels();
  timers_->Advance(10ms);
  EXPECT_EQ(daemon_->releases().size(), 1u);
}

TEST_F(AcquireTest, ARevokedLeaseIsNotReleased) {
  Connect();
  MustAcquire();
  Before("a", v1::INVALIDATE_CLEAR);
  After("a", v1::INVALIDATE_CLEAR);
  client_->ForgetKernels();
  timers_->Advance(10ms);
  EXPECT_THAT(daemon_->releases(), IsEmpty());
}

TEST_F(AcquireTest, TheMemoIsBoundedButNeverDropsWhatIsInUse) {
  options_.memo_capacity = 4;
  Connect();
  const Kernel held = MustAcquire("held");
  for (int i = 0; i < 20; ++i) MustAcquire("k" + std::to_string(i));
  timers_->Advance(10ms);
  EXPECT_EQ(daemon_->releases().size(), 17u);
  daemon_->ForgetEvents();
  MustAcquire("held");
  MustAcquire("k19");
  EXPECT_THAT(daemon_->acquires(), IsEmpty());
  EXPECT_TRUE(held.valid());
}

TEST_F(AcquireTest, TwoNamesOfOneHandleAreOneLease) {
  // A session has one lease on a handle: releasing one of two would take the other away.
  options_.memo_capacity = 0;
  Connect();
  Kernel first = MustAcquire();
  const Kernel second = MustAcquire();
  EXPECT_EQ(first.state(), second.state());
  first = Kernel();
  timers_->Advance(10ms);
  EXPECT_THAT(daemon_->releases(), IsEmpty());
  EXPECT_TRUE(second.Launch(GetQueue(), LaunchConfig::Global(1)).ok());
}

TEST_F(AcquireTest, AGrantThatCrossedOurOwnReleaseIsAskedForAgain) {
  options_.memo_capacity = 0;
  Connect();
  Kernel first = MustAcquire();
  v1::Acquire crossing;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (!event.has_acquire() || !crossing.entry().empty()) return false;
    crossing = event.acquire();
    return true;
  };
  absl::StatusOr<Kernel> second = absl::UnknownError("none");
  client_->AcquireAsync(Request(), [&](auto kernel) { second = std::move(kernel); });
  first = Kernel();  // its release goes out behind the acquire
  timers_->Advance(10ms);
  ASSERT_EQ(daemon_->releases().size(), 1u);
  daemon_->Grant(crossing);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(daemon_->acquires().size(), 3u);
}

TEST_F(AcquireTest, BadRequestsNeverReachTheDaemon) {
  Connect();
  const auto reason = [&](KernelRequest request) {
    return FailureReason(client_->Acquire(request).status());
  };
  EXPECT_EQ(reason({.program = Program(), .entry = "add", .device = kDevice}), Reason::kBadRequest);
  EXPECT_EQ(reason({.program = program_, .entry = "", .device = kDevice}), Reason::kBadRequest);
  EXPECT_EQ(reason({.program = program_, .entry = "\xff", .device = kDevice}),
            Reason::kInvalidUtf8);
  EXPECT_EQ(reason({.program = program_, .entry = "add", .device = {"", 0}}), Reason::kBadRequest);
  EXPECT_EQ(FailureReason(client_->Allocate(kDevice, 0).status()), Reason::kBadRequest);
  EXPECT_EQ(FailureReason(client_->Allocate(kDevice, 8, {.label = "\xc0"}).status()),
            Reason::kInvalidUtf8);
  EXPECT_EQ(FailureReason(client_->Allocate(kDevice, 8, {.label = std::string(65, 'x')}).status()),
            Reason::kLimitExceeded);
  EXPECT_THAT(daemon_->events(), IsEmpty());
}

TEST_F(AcquireTest, InsideAUseScopeOnlyTheMemoAnswers) {
  Connect();
  const Kernel kernel = MustAcquire();
  auto scope = kernel.Use();
  EXPECT_TRUE(client_->Acquire(Request()).ok());
  EXPECT_EQ(FailureReason(client_->Acquire(Request("new")).status()), Reason::kBlockingInListener);
  EXPECT_EQ(FailureReason(client_->ListDevices().status()), Reason::kBlockingInListener);
  EXPECT_EQ(FailureReason(client_->Clear().status()), Reason::kBlockingInListener);
  EXPECT_TRUE(GetQueue().Synchronize().ok()) << "waits for the device only";
  { const UseScope closed = *std::move(scope); }
  EXPECT_TRUE(client_->Acquire(Request("new")).ok());
}

TEST_F(AcquireTest, BlockingInACallbackIsRefused) {
  Connect();
  Reason inside = Reason::kUnspecified;
  client_->AcquireAsync(Request(), [&](auto) {
    inside = FailureReason(client_->Acquire(Request("other")).status());
  });
  EXPECT_EQ(inside, Reason::kBlockingInListener);
}

TEST_F(AcquireTest, AResumedSessionKeepsKernelsAndMemo) {
  Connect();
  const Kernel kernel = MustAcquire();
  daemon_->Break();
  timers_->Advance(10ms);
  EXPECT_TRUE(kernel.valid());
  daemon_->ForgetEvents();
  MustAcquire();
  EXPECT_THAT(daemon_->acquires(), IsEmpty());
  EXPECT_EQ(client_->statistics().resumes, 1u);
}

TEST_F(AcquireTest, AnotherDaemonDropsAllTellsListenersAndLeasesAreTakenAgain) {
  Connect();
  Listen();
  const Kernel kernel = MustAcquire();
  auto buffer = client_->Allocate(kDevice, 16);
  ASSERT_TRUE(buffer.ok());
  daemon_->Restart();
  timers_->Advance(10ms);
  EXPECT_THAT(told_, ElementsAre("before session-lost", "after session-lost"));
  EXPECT_EQ(FailureReason(kernel.Launch(GetQueue(), LaunchConfig::Global(1))),
            Reason::kLeaseRevoked);
  EXPECT_FALSE(buffer->Write(GetQueue(), 0, std::as_bytes(std::span("abc"))).ok());
  const Kernel again = MustAcquire();
  EXPECT_TRUE(again.Launch(GetQueue(), LaunchConfig::Global(1)).ok());
  EXPECT_TRUE(GetQueue().Synchronize().ok());
  EXPECT_EQ(client_->statistics().sessions_lost, 1u);
}

TEST_F(AcquireTest, AForkedChildIsRefusedEverythingAndReleasesNothing) {
  Connect();
  auto kernel = std::make_unique<Kernel>(MustAcquire());
  auto buffer = client_->Allocate(kDevice, 16);
  ASSERT_TRUE(buffer.ok());
  const Queue queue = GetQueue();
  daemon_->ForgetEvents();
  const pid_t child = fork();
  if (child == 0) {
    const auto forked = [](const absl::Status& status) {
      return FailureReason(status) == Reason::kForked;
    };
    std::byte bytes[4] = {};
    bool ok = forked(client_->Acquire(Request()).status());
    ok = ok && forked(client_->ListDevices().status());
    ok = ok && forked(client_->Allocate(kDevice, 4).status());
    ok = ok && forked(kernel->Launch(queue, LaunchConfig::Global(1)));
    ok = ok && forked(buffer->Write(queue, 0, bytes)) && forked(buffer->Read(queue, 0, bytes));
    ok = ok && forked(queue.Synchronize()) && forked(kernel->Use().status());
    ok = ok && !kernel->valid();
    kernel = nullptr;
    { const Buffer dropped = *std::move(buffer); }
    client_ = nullptr;
    // Nothing was sent: this process has its own copy of the fake's record.
    ok = ok && daemon_->events().empty();
    _exit(ok ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(kernel->Launch(queue, LaunchConfig::Global(1)).ok()) << "the parent goes on";
}

TEST_F(AcquireTest, AfterCloseEverythingAnswersCancelled) {
  Connect();
  const Kernel kernel = MustAcquire();
  auto buffer = client_->Allocate(kDevice, 16);
  client_->Close();
  EXPECT_TRUE(daemon_->events().back().has_goodbye());
  EXPECT_EQ(FailureReason(client_->Acquire(Request("x")).status()), Reason::kCancelled);
  EXPECT_EQ(FailureReason(kernel.Launch(GetQueue(), LaunchConfig::Global(1))), Reason::kCancelled);
  client_ = nullptr;
  EXPECT_EQ(FailureReason(kernel.Launch(Queue(), LaunchConfig::Global(1))), Reason::kUnknownQueue);
}

TEST_F(AcquireTest, BuffersCanComeBeforeAnyKernel) {
  Connect();
  auto buffer = client_->Allocate(kDevice, 16);
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  ASSERT_EQ(daemon_->acquires().size(), 1u);
  EXPECT_EQ(daemon_->acquires()[0].acquire().mode(), v1::ACQUIRE_CONTEXT);
  ASSERT_TRUE(client_->Allocate(kDevice, 16).ok());
  EXPECT_EQ(daemon_->acquires().size(), 1u);
  timers_->Advance(1ms);
  EXPECT_EQ(daemon_->host()->buffers(), 1u) << "the second one has been released";
}

TEST_F(AcquireTest, ScratchGrowsAndIsMemoized) {
  Connect();
  auto small = client_->Scratch(kDevice, "tag", 100);
  ASSERT_TRUE(small.ok());
  const size_t commands = daemon_->host()->commands().size();
  auto smaller = client_->Scratch(kDevice, "tag", 50);
  EXPECT_EQ(smaller->state(), small->state());
  EXPECT_EQ(daemon_->host()->commands().size(), commands);
  auto larger = client_->Scratch(kDevice, "tag", 200);
  EXPECT_NE(larger->state(), small->state());
  EXPECT_EQ(larger->bytes(), 200u);
}

TEST_F(AcquireTest, FirstNIsAskedOfTheDevice) {
  Connect();
  EXPECT_TRUE(*client_->FirstN(kDevice, "route", 2));
  EXPECT_TRUE(*client_->FirstN(kDevice, "route", 2));
  EXPECT_FALSE(*client_->FirstN(kDevice, "route", 2));
  EXPECT_TRUE(*client_->Once(kDevice, "other"));
  EXPECT_FALSE(*client_->Once(kDevice, "other"));
}

TEST_F(AcquireTest, AnArtifactIsPinnedOnceAndReleasedWithItsLastCopy) {
  Connect();
  {
    auto artifact = client_->AcquireArtifact(program_, CompileTarget{"Fake", "v1"});
    ASSERT_TRUE(artifact.ok()) << artifact.status();
    EXPECT_EQ(artifact->format(), "fake-binary");
    EXPECT_EQ(artifact->build_log(), "fine");
    EXPECT_EQ(artifact->kernels()[0].entry, "main");
    EXPECT_THAT(std::string(reinterpret_cast<const char*>(artifact->Bytes().data()), 9),
                HasSubstr("binary of"));
    auto again = client_->AcquireArtifact(program_, CompileTarget{"Fake", "v1"});
    ASSERT_TRUE(again.ok());
  }
  timers_->Advance(10ms);
  ASSERT_EQ(daemon_->releases().size(), 1u);
  EXPECT_FALSE(daemon_->releases()[0].release().artifact_key().empty());
  EXPECT_EQ(daemon_->releases()[0].release().context_id(), 0u);
}

TEST_F(AcquireTest, DevicesAreListed) {
  Connect();
  const auto list = client_->ListDevices();
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->devices.size(), 2u);
  EXPECT_EQ(list->devices[1].id.ToString(), "Fake:1");
  EXPECT_EQ(list->devices[1].global_id, 101u);
  EXPECT_EQ(list->devices[0].state, DeviceState::kUp);
}

}  // namespace
}  // namespace kcache::internal
