// What a client does when it is told that handles go away (SEMANTICS 1, guarantees G1 to G3, G5 to
// G7).

#include <thread>

#include "client_fixture.h"

namespace kcache::internal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class InvalidationTest : public ClientTest {};

TEST_F(InvalidationTest, G1_DestroyIsAcknowledgedWithHowFarTheQueuesGot) {
  Connect();
  const Kernel kernel = MustAcquire();
  ASSERT_TRUE(kernel.Launch(GetQueue(), LaunchConfig::Global(8)).ok());
  LaunchConfig repeated = LaunchConfig::Global(8);
  repeated.repeat = 4;
  ASSERT_TRUE(kernel.Launch(GetQueue(kDevice, 3), repeated).ok());
  Before("a", v1::INVALIDATE_DEVICE);

  const auto acks = daemon_->acks();
  ASSERT_EQ(acks.size(), 1u);
  const v1::Ack& ack = acks[0].ack();
  EXPECT_EQ(ack.operation_id(), std::string(16, 'a'));
  EXPECT_EQ(ack.context_id(), daemon_->context().context_id());
  ASSERT_EQ(ack.positions_size(), 2);
  EXPECT_EQ(ack.positions(0).queue(), 0u);
  EXPECT_EQ(ack.positions(0).sequence(), 1u);
  EXPECT_EQ(ack.positions(1).queue(), 3u);
  EXPECT_EQ(ack.positions(1).sequence(), 4u);
  // Submitted, not only promised.
  EXPECT_EQ(daemon_->host()->launches(), 2u);

  EXPECT_FALSE(kernel.valid());
  const absl::Status refused = kernel.Launch(GetQueue(), LaunchConfig::Global(8));
  EXPECT_EQ(FailureReason(refused), Reason::kDeviceDestroyed) << refused;
  EXPECT_EQ(daemon_->host()->violations(), 0u);
}

TEST_F(InvalidationTest, G2_ListenersHearBeforeTheAckAndAfterEachOnce) {
  Connect();
  Listen();
  MustAcquire();
  listeners_->set_immediate(false);
  Before("a", v1::INVALIDATE_DEVICE);
  EXPECT_THAT(daemon_->acks(), IsEmpty());
  listeners_->RunAll();
  EXPECT_THAT(told_, ElementsAre("before destroy"));
  EXPECT_EQ(daemon_->acks().size(), 1u);
  After("a", v1::INVALIDATE_DEVICE);
  listeners_->RunAll();
  EXPECT_THAT(told_, ElementsAre("before destroy", "after destroy"));
  EXPECT_EQ(daemon_->acks().size(), 1u);
}

TEST_F(InvalidationTest, TheMemoIsDroppedBeforeListenersRun) {
  Connect();
  MustAcquire();
  bool asked_again = false;
  auto listener = client_->OnClearAll([&](const ClearEvent& event) {
    if (event.phase == EventPhase::kBefore) {
      // Only what is memoized may be acquired in a listener.
      asked_again =
          FailureReason(client_->Acquire(Request()).status()) == Reason::kBlockingInListener;
    }
    return absl::OkStatus();
  });
  Before("a", v1::INVALIDATE_CLEAR);
  EXPECT_TRUE(asked_again);
}

TEST_F(InvalidationTest, AClearLeavesContextAndBuffers) {
  Connect();
  const Kernel old = MustAcquire();
  auto buffer = client_->Allocate(kDevice, 16);
  ASSERT_TRUE(buffer.ok());
  Before("a", v1::INVALIDATE_CLEAR);
  EXPECT_EQ(FailureReason(old.Launch(GetQueue(), LaunchConfig::Global(1))), Reason::kLeaseRevoked);
  daemon_->NewSlots();
  After("a", v1::INVALIDATE_CLEAR);
  const Kernel fresh = MustAcquire();
  EXPECT_TRUE(fresh.Launch(GetQueue(), LaunchConfig::Global(1)).ok());
  EXPECT_TRUE(buffer->Write(GetQueue(), 0, std::as_bytes(std::span("abc"))).ok());
  EXPECT_TRUE(GetQueue().Synchronize().ok());
  EXPECT_EQ(daemon_->host()->opened, 1);
}

TEST_F(InvalidationTest, AKernelGrantedDuringAClearStays) {
  Connect();
  Listen();
  MustAcquire();
  listeners_->set_immediate(false);
  Before("a", v1::INVALIDATE_CLEAR);
  daemon_->NewSlots();
  const Kernel fresh = MustAcquire();  // the daemon has taken the old handles out of circulation
  listeners_->RunAll();
  After("a", v1::INVALIDATE_CLEAR);
  listeners_->RunAll();
  EXPECT_TRUE(fresh.valid());
  EXPECT_TRUE(fresh.Launch(GetQueue(), LaunchConfig::Global(1)).ok());
}

TEST_F(InvalidationTest, AUseScopeHoldsTheAckAndItsLaunchesStayWelcome) {
  Connect();
  const Kernel used = MustAcquire("used");
  const Kernel idle = MustAcquire("idle");
  auto scope = used.Use();
  ASSERT_TRUE(scope.ok());
  Before("a", v1::INVALIDATE_DEVICE);
  EXPECT_THAT(daemon_->acks(), IsEmpty());
  EXPECT_TRUE(used.Launch(GetQueue(), LaunchConfig::Global(1)).ok());
  EXPECT_FALSE(idle.Launch(GetQueue(), LaunchConfig::Global(1)).ok());
  EXPECT_FALSE(used.Use().ok()) << "no new use starts";
  { const UseScope closed = *std::move(scope); }
  ASSERT_EQ(daemon_->acks().size(), 1u);
  EXPECT_EQ(daemon_->acks()[0].ack().positions(0).sequence(), 1u);
  EXPECT_FALSE(used.Launch(GetQueue(), LaunchConfig::Global(1)).ok());
}

TEST_F(InvalidationTest, ALateScopeIsExplained) {
  Connect();
  const Kernel kernel = MustAcquire();
  auto scope = kernel.Use();
  Before("a", v1::INVALIDATE_DEVICE);
  EXPECT_THAT(daemon_->nacks(), IsEmpty());
  timers_->Advance(options_.slow_listener);
  ASSERT_EQ(daemon_->nacks().size(), 1u);
  EXPECT_THAT(daemon_->nacks()[0].nack().why(), HasSubstr("1 use scopes are open"));
}

TEST_F(InvalidationTest, ASlowListenerIsExplainedAndStillAcknowledged) {
  Connect();
  Listen();
  MustAcquire();
  listeners_->set_immediate(false);
  Before("a", v1::INVALIDATE_DEVICE);
  timers_->Advance(options_.slow_listener);
  ASSERT_EQ(daemon_->nacks().size(), 1u);
  EXPECT_THAT(daemon_->nacks()[0].nack().why(), HasSubstr("listener"));
  listeners_->RunAll();
  EXPECT_EQ(daemon_->acks().size(), 1u);
  timers_->Advance(options_.slow_listener);
  EXPECT_EQ(daemon_->nacks().size(), 1u);
}

TEST_F(InvalidationTest, G5_EveryListenerRunsAndTheFirstFailureIsReported) {
  Connect();
  MustAcquire();
  int ran = 0;
  auto first = client_->OnDeviceDestroy([&](const DeviceEvent&) {
    ++ran;
    return absl::InternalError("first");
  });
  auto second = client_->OnDeviceDestroy([&](const DeviceEvent&) -> absl::Status {
    ++ran;
    throw std::runtime_error("second");
  });
  Before("a", v1::INVALIDATE_DEVICE);
  EXPECT_EQ(ran, 2);
  EXPECT_EQ(daemon_->acks().size(), 1u);
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_THAT(std::string(problems_[0].message()), HasSubstr("first"));
}

TEST_F(InvalidationTest, G6_ALikeIndexOfAnotherFamilyIsNotConcerned) {
  Connect();
  const Kernel kernel = MustAcquire();
  v1::Invalidate other = Event("a", v1::INVALIDATE_DEVICE, v1::PHASE_BEFORE);
  other.set_family("CUDA");
  other.clear_context();
  other.set_needs_ack(false);
  daemon_->Invalidate(other);
  EXPECT_TRUE(kernel.valid());
  daemon_->ForgetEvents();
  MustAcquire();
  EXPECT_THAT(daemon_->acquires(), IsEmpty()) << "still memoized";
}

TEST_F(InvalidationTest, AnotherDeviceOfTheFamilyIsNotConcerned) {
  Connect();
  const Kernel mine = MustAcquire("add", kDevice);
  const Kernel other = MustAcquire("add", kOther);
  Before("a", v1::INVALIDATE_DEVICE, 1);
  EXPECT_TRUE(mine.valid());
  EXPECT_FALSE(other.valid());
}

TEST_F(InvalidationTest, RepetitionsAreDropped) {
  Connect();
  Listen();
  MustAcquire();
  v1::DaemonEvent event;
  *event.mutable_invalidate() = Event("a", v1::INVALIDATE_DEVICE, v1::PHASE_BEFORE);
  event.mutable_invalidate()->set_revision(7);
  daemon_->Send(event);
  daemon_->Send(event);
  EXPECT_THAT(told_, ElementsAre("before destroy"));
  EXPECT_EQ(daemon_->acks().size(), 1u);
  EXPECT_EQ(client_->statistics().duplicates_dropped, 1u);
}

TEST_F(InvalidationTest, AClearOfSeveralContextsIsTwoNotificationsNotFour) {
  Connect();
  Listen();
  MustAcquire("add", kDevice);
  MustAcquire("add", kOther);
  Before("a", v1::INVALIDATE_CLEAR, 0);
  Before("a", v1::INVALIDATE_CLEAR, 1);
  EXPECT_EQ(daemon_->acks().size(), 2u) << "one for each context";
  After("a", v1::INVALIDATE_CLEAR, 0);
  EXPECT_THAT(told_, ElementsAre("before clear"));
  After("a", v1::INVALIDATE_CLEAR, 1);
  EXPECT_THAT(told_, ElementsAre("before clear", "after clear"));
}

TEST_F(InvalidationTest, TwoOperationsAreFourNotifications) {
  Connect();
  Listen();
  MustAcquire();
  Before("a", v1::INVALIDATE_CLEAR);
  Before("b", v1::INVALIDATE_CLEAR);
  After("a", v1::INVALIDATE_CLEAR);
  After("b", v1::INVALIDATE_CLEAR);
  EXPECT_THAT(told_, ElementsAre("before clear", "before clear", "after clear", "after clear"));
}

TEST_F(InvalidationTest, G3_ABuildAcrossADestroyIsNotInstalled) {
  Connect();
  v1::Acquire held;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (!event.has_acquire() || !held.program_digest().empty()) return false;
    held = event.acquire();
    return true;
  };
  absl::StatusOr<Kernel> outcome = absl::UnknownError("none");
  client_->AcquireAsync(Request(), [&](auto kernel) { outcome = std::move(kernel); });
  Before("a", v1::INVALIDATE_DEVICE);
  After("a", v1::INVALIDATE_DEVICE);
  daemon_->Grant(held);
  EXPECT_EQ(FailureReason(outcome.status()), Reason::kDeviceDestroyed) << outcome.status();
  timers_->Advance(10ms);
  EXPECT_EQ(daemon_->releases().size(), 1u) << "what was built is given back, once";
  daemon_->ForgetEvents();
  MustAcquire();
  EXPECT_EQ(daemon_->acquires().size(), 1u) << "nothing was memoized";
}

TEST_F(InvalidationTest, G3_ABuildAcrossAClearIsTriedAgainThreeTimes) {
  Connect();
  int asked = 0;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (!event.has_acquire()) return false;
    ++asked;
    const std::string operation(1, static_cast<char>('a' + asked));
    Before(operation, v1::INVALIDATE_CLEAR);
    daemon_->NewSlots();
    After(operation, v1::INVALIDATE_CLEAR);
    return false;
  };
  absl::StatusOr<Kernel> outcome = absl::UnknownError("none");
  client_->AcquireAsync(Request(), [&](auto kernel) { outcome = std::move(kernel); });
  EXPECT_EQ(asked, 4);
  EXPECT_EQ(FailureReason(outcome.status()), Reason::kCleared) << outcome.status();
  daemon_->intercept = nullptr;
  EXPECT_TRUE(client_->Acquire(Request()).ok());
}

TEST_F(InvalidationTest, DrainingIsWaitedForUntilAfter) {
  Connect();
  MustAcquire();
  Before("a", v1::INVALIDATE_DEVICE);
  bool draining = true;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (!event.has_acquire() || !draining) return false;
    daemon_->Fail(event.acquire().request_id(), MakeError(v1::DEVICE_DRAINING, "draining"));
    return true;
  };
  absl::StatusOr<Kernel> outcome = absl::UnknownError("none");
  client_->AcquireAsync(Request(), [&](auto kernel) { outcome = std::move(kernel); });
  EXPECT_EQ(absl::StatusCode::kUnknown, outcome.status().code()) << "still waiting";
  draining = false;
  const v1::Invalidate after = Event("a", v1::INVALIDATE_DEVICE, v1::PHASE_AFTER);
  daemon_->NextGeneration(0);
  daemon_->Invalidate(after);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
}

TEST_F(InvalidationTest, AnAcquireBetweenBeforeAndAfterIsNotOvertakenByAfter) {
  // The daemon is done with the destroy, and would grant; its AFTER is still on the way here.
  Connect();
  MustAcquire();
  Before("a", v1::INVALIDATE_DEVICE);
  const v1::Invalidate after = Event("a", v1::INVALIDATE_DEVICE, v1::PHASE_AFTER);
  daemon_->NextGeneration(0);
  daemon_->ForgetEvents();
  absl::StatusOr<Kernel> outcome = absl::UnknownError("none");
  client_->AcquireAsync(Request(), [&](auto kernel) { outcome = std::move(kernel); });
  EXPECT_THAT(daemon_->acquires(), IsEmpty());
  daemon_->Invalidate(after);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(daemon_->acquires().size(), 1u);
}

TEST_F(InvalidationTest, AnAcquireThatWaitedForADestroyIsNotFailedByItsAfter) {
  Connect();
  v1::Acquire held;
  int asked = 0;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (!event.has_acquire()) return false;
    ++asked;
    if (asked == 1) {
      daemon_->Fail(event.acquire().request_id(), MakeError(v1::DEVICE_DRAINING, "draining"));
      return true;
    }
    held = event.acquire();
    return asked == 2;
  };
  absl::StatusOr<Kernel> outcome = absl::UnknownError("none");
  client_->AcquireAsync(Request(), [&](auto kernel) { outcome = std::move(kernel); });
  timers_->Advance(1s);
  ASSERT_EQ(asked, 2) << "asked again, before this process has heard of the destroy";
  Before("a", v1::INVALIDATE_DEVICE);
  After("a", v1::INVALIDATE_DEVICE);
  daemon_->NextGeneration(0);
  daemon_->Grant(held);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
}

TEST_F(InvalidationTest, AnAfterThatDoesNotComeIsNotWaitedForForEver) {
  Connect();
  Before("a", v1::INVALIDATE_DEVICE);
  daemon_->NextGeneration(0);
  absl::StatusOr<Kernel> outcome = absl::UnknownError("none");
  client_->AcquireAsync(Request(), [&](auto kernel) { outcome = std::move(kernel); });
  EXPECT_EQ(absl::StatusCode::kUnknown, outcome.status().code()) << "still waiting";
  timers_->Advance(2s);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
}

TEST_F(InvalidationTest, DrainingElsewhereIsAskedAgainAfterAPauseAndEndsAtTheDeadline) {
  Connect();
  int asked = 0;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (!event.has_acquire()) return false;
    ++asked;
    daemon_->Fail(event.acquire().request_id(), MakeError(v1::DEVICE_DRAINING, "draining"));
    return true;
  };
  absl::StatusOr<Kernel> outcome = absl::UnknownError("none");
  KernelRequest request = Request();
  request.timeout = 2s;
  client_->AcquireAsync(request, [&](auto kernel) { outcome = std::move(kernel); });
  EXPECT_EQ(asked, 1);
  timers_->Advance(1s);
  EXPECT_GT(asked, 4);
  EXPECT_LT(asked, 20) << "with growing pauses";
  timers_->Advance(2s);
  EXPECT_EQ(FailureReason(outcome.status()), Reason::kDeadlineExceeded);
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("draining"));
}

TEST_F(InvalidationTest, G8_ALostContextTellsBothPhasesInARow) {
  Connect();
  Listen();
  const Kernel kernel = MustAcquire();
  v1::Invalidate lost = Event("a", v1::INVALIDATE_LOST, v1::PHASE_AFTER);
  lost.set_lost(true);
  daemon_->Invalidate(lost);
  EXPECT_THAT(told_, ElementsAre("before lost", "after lost"));
  EXPECT_EQ(FailureReason(kernel.Launch(GetQueue(), LaunchConfig::Global(1))), Reason::kDeviceLost);
  EXPECT_THAT(daemon_->acks(), IsEmpty());
  daemon_->NextGeneration(0);
  EXPECT_TRUE(MustAcquire().valid());
}

TEST_F(InvalidationTest, LostWhileDraining) {
  Connect();
  Listen();
  const Kernel kernel = MustAcquire();
  Before("a", v1::INVALIDATE_DEVICE);
  v1::Invalidate after = Event("a", v1::INVALIDATE_DEVICE, v1::PHASE_AFTER);
  after.set_lost(true);
  daemon_->Invalidate(after);
  EXPECT_THAT(told_, ElementsAre("before destroy", "after destroy"));
}

TEST_F(InvalidationTest, AHostThatDiesRevokesItsKernelsAtOnce) {
  Connect();
  const Kernel kernel = MustAcquire();
  ASSERT_TRUE(kernel.Launch(GetQueue(), LaunchConfig::Global(1)).ok());
  daemon_->host()->Die("killed");
  const absl::Status lost = kernel.Launch(GetQueue(), LaunchConfig::Global(1));
  EXPECT_EQ(FailureReason(lost), Reason::kDeviceLost) << lost;
  // What was queued and not yet asked about is reported, once.
  EXPECT_EQ(FailureReason(GetQueue().Synchronize()), Reason::kDeviceLost);
  EXPECT_TRUE(GetQueue().Synchronize().ok());
  // The daemon may be slower to notice; the library asks until it has.
  absl::StatusOr<Kernel> outcome = absl::UnknownError("none");
  client_->AcquireAsync(Request(), [&](auto again) { outcome = std::move(again); });
  EXPECT_FALSE(outcome.ok());
  daemon_->NextGeneration(0);
  timers_->Advance(1s);
  EXPECT_TRUE(outcome.ok()) << outcome.status();
}

TEST_F(InvalidationTest, AResetRevokesNothingButForgets) {
  Connect();
  Listen();
  const Kernel kernel = MustAcquire();
  for (const v1::Phase phase : {v1::PHASE_BEFORE, v1::PHASE_AFTER}) {
    v1::Invalidate reset = Event("a", v1::INVALIDATE_RESET, phase);
    reset.clear_context();
    reset.set_needs_ack(false);
    daemon_->Invalidate(reset);
  }
  EXPECT_THAT(told_, ElementsAre("before reset", "after reset"));
  EXPECT_TRUE(kernel.valid());
  EXPECT_THAT(daemon_->acks(), IsEmpty());
  daemon_->ForgetEvents();
  MustAcquire();
  EXPECT_EQ(daemon_->acquires().size(), 1u);
}

TEST_F(InvalidationTest, ACoverRecordDropsItsScopeAndEndsWhatItCovers) {
  Connect();
  Listen();
  const Kernel mine = MustAcquire("add", kDevice);
  const Kernel other = MustAcquire("add", kOther);
  Before("a", v1::INVALIDATE_CLEAR, 0);
  v1::Invalidate cover;
  cover.set_kind(v1::INVALIDATE_COVER);
  cover.set_phase(v1::PHASE_AFTER);
  daemon_->Invalidate(cover);
  EXPECT_THAT(told_, ElementsAre("before clear", "after clear", "before missed", "after missed"));
  EXPECT_FALSE(mine.valid());
  EXPECT_FALSE(other.valid());
  // The operation's own AFTER, should it come, was told.
  After("a", v1::INVALIDATE_CLEAR, 0);
  EXPECT_EQ(told_.size(), 4u);
}

TEST_F(InvalidationTest, AMissedOperationIsToldAsBothPhases) {
  Connect();
  Listen();
  const Kernel kernel = MustAcquire();
  v1::Invalidate missed = Event("a", v1::INVALIDATE_MISSED, v1::PHASE_AFTER);
  daemon_->Invalidate(missed);
  EXPECT_THAT(told_, ElementsAre("before missed", "after missed"));
  EXPECT_FALSE(kernel.valid());
}

TEST_F(InvalidationTest, AMissedAfterClosesTheBeforeThatWasTold) {
  Connect();
  Listen();
  MustAcquire();
  Before("a", v1::INVALIDATE_CLEAR);
  v1::Invalidate missed = Event("a", v1::INVALIDATE_MISSED, v1::PHASE_AFTER);
  daemon_->Invalidate(missed);
  EXPECT_THAT(told_, ElementsAre("before clear", "after clear"));
}

TEST_F(InvalidationTest, RevokedUnackedIsReported) {
  Connect();
  const Kernel kernel = MustAcquire();
  auto scope = kernel.Use();
  Before("a", v1::INVALIDATE_CLEAR);
  v1::Invalidate after = Event("a", v1::INVALIDATE_CLEAR, v1::PHASE_AFTER);
  *after.mutable_failure() = ToProto(MakeError(v1::REVOKED_UNACKED, "too late"));
  daemon_->Invalidate(after);
  ASSERT_EQ(problems_.size(), 1u);
  EXPECT_EQ(FailureReason(problems_[0]), Reason::kRevokedUnacked);
}

TEST_F(InvalidationTest, AnInitiatorThatHoldsIsToldAndAnswers) {
  Connect();
  MustAcquire();
  auto failing = client_->OnClearAll([](const ClearEvent& event) {
    return event.initiator ? absl::InternalError("mine") : absl::OkStatus();
  });
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (!event.has_clear()) return false;
    EXPECT_EQ(event.clear().operation_id().size(), 16u);
    for (const v1::Phase phase : {v1::PHASE_BEFORE, v1::PHASE_AFTER}) {
      v1::Invalidate step = Event("a", v1::INVALIDATE_CLEAR, phase);
      step.set_operation_id(event.clear().operation_id());
      step.set_initiator(true);
      daemon_->Invalidate(step);
    }
    v1::DaemonEvent done;
    done.mutable_operation_done()->set_request_id(event.clear().request_id());
    done.mutable_operation_done()->set_operation_id(event.clear().operation_id());
    daemon_->Send(done);
    return true;
  };
  const auto report = client_->Clear();
  EXPECT_EQ(daemon_->acks().size(), 1u);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("mine"));
}

TEST_F(InvalidationTest, ListenersMayRegisterAndUnregisterInside) {
  Connect();
  MustAcquire();
  Registration self;
  Registration added;
  int heard = 0;
  self = client_->OnDeviceDestroy([&](const DeviceEvent&) {
    self.Unregister();
    added = client_->OnDeviceDestroy([&](const DeviceEvent&) {
      ++heard;
      return absl::OkStatus();
    });
    return absl::OkStatus();
  });
  Before("a", v1::INVALIDATE_DEVICE);
  EXPECT_EQ(heard, 0);
  After("a", v1::INVALIDATE_DEVICE);
  EXPECT_EQ(heard, 1);
}

TEST_F(InvalidationTest, WhatIsHandledIsSaidWhenRenewing) {
  Connect();
  Listen();
  MustAcquire();
  listeners_->set_immediate(false);
  Before("a", v1::INVALIDATE_DEVICE);
  timers_->Advance(3s);
  const auto renewals = [this] {
    return daemon_->EventsThat([](const auto& event) { return event.has_renew(); });
  };
  ASSERT_EQ(renewals().size(), 1u);
  EXPECT_EQ(renewals()[0].renew().last_revision(), 0u) << "the listener has not run";
  listeners_->RunAll();
  timers_->Advance(3s);
  ASSERT_EQ(renewals().size(), 2u);
  EXPECT_EQ(renewals()[1].renew().last_revision(), 1u);
}

TEST_F(InvalidationTest, ArtifactsAreToldAndStayReadable) {
  Connect();
  auto artifact = client_->AcquireArtifact(program_, kDevice);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  int told = 0;
  auto listener = artifact->OnRevoked([&](const InvalidationEvent&) {
    ++told;
    return absl::OkStatus();
  });
  v1::Invalidate clear = Event("a", v1::INVALIDATE_CLEAR, v1::PHASE_BEFORE);
  clear.clear_context();
  clear.set_needs_ack(false);
  daemon_->Invalidate(clear);
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(artifact->revoked());
  EXPECT_FALSE(artifact->Bytes().empty());
  EXPECT_THAT(daemon_->acks(), IsEmpty()) << "a pin never delays a teardown";
}

}  // namespace
}  // namespace kcache::internal
