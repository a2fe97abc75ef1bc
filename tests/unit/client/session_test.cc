// The session stream: opening, renewing, breaking, resuming.

#include "client/src/session.h"

#include "fake_daemon.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manual_scheduling.h"

namespace kcache::internal {
namespace {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SessionTest : public ::testing::Test, public SessionDelegate {
 protected:
  SessionTest() {
    auto daemon = std::make_unique<FakeDaemon>();
    auto timers = std::make_unique<ManualTimers>();
    daemon_ = daemon.get();
    timers_ = timers.get();
    runtime_ = std::make_shared<Runtime>();
    runtime_->transport = std::move(daemon);
    runtime_->timers = std::move(timers);
    session_ = std::make_shared<Session>(
        SessionOptions{.client_name = "test", .client_version = "1"}, runtime_, this);
  }
  ~SessionTest() override {
    OnExecutor([this] { session_->Close([] {}); });
  }

  template <class F>
  void OnExecutor(F f) {
    runtime_->executor->Run([&f] { f(); });
  }
  absl::Status Open() {
    absl::Status outcome = absl::UnknownError("no answer yet");
    OnExecutor([&] { session_->Open([&](absl::Status status) { outcome = status; }); });
    if (outcome.code() == absl::StatusCode::kUnknown) opened_ = &outcome;
    return outcome;
  }
  // An outcome that is filled in when it comes.
  std::shared_ptr<absl::Status> List(Session::RequestOptions options = {.timeout = 30s}) {
    auto outcome = std::make_shared<absl::Status>(absl::UnknownError("no answer yet"));
    OnExecutor([&] {
      v1::ClientEvent event;
      event.mutable_list_devices();
      session_->Request(std::move(event), options,
                        [outcome](auto reply) { *outcome = reply.status(); });
    });
    return outcome;
  }
  void Release(uint32_t slot) {
    OnExecutor([&] {
      v1::ClientEvent event;
      event.mutable_release()->mutable_lease()->set_slot(slot);
      session_->Note(std::move(event));
    });
  }
  std::vector<uint32_t> ReleasedSlots() {
    std::vector<uint32_t> slots;
    for (const auto& event : daemon_->releases()) slots.push_back(event.release().lease().slot());
    return slots;
  }

  void OnContextInfo(const v1::ContextInfo&) override {}
  void OnInvalidate(const v1::Invalidate&) override {}
  void OnNeedSource(uint64_t, const std::string&) override {}
  void OnUnclaimedGrant(const v1::Grant& grant) override { unclaimed_.push_back(grant); }
  void OnResumed() override { ++resumed_; }
  void OnSessionLost(const absl::Status& why) override { lost_.push_back(why); }
  void OnProblem(const absl::Status& problem) override { problems_.push_back(problem); }

  FakeDaemon* daemon_;
  ManualTimers* timers_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<Session> session_;
  absl::Status* opened_ = nullptr;
  int resumed_ = 0;
  std::vector<absl::Status> lost_;
  std::vector<absl::Status> problems_;
  std::vector<v1::Grant> unclaimed_;
};

TEST_F(SessionTest, HelloIsFirstAndAsksForEverything) {
  ASSERT_TRUE(Open().ok());
  const auto events = daemon_->events();
  ASSERT_GE(events.size(), 2u);
  EXPECT_EQ(events[0].hello().client_name(), "test");
  EXPECT_EQ(events[0].hello().version(), v1::PROTOCOL_VERSION_1);
  EXPECT_EQ(events[0].hello().session_id(), 0u);
  EXPECT_TRUE(events[1].has_subscribe());
  EXPECT_THAT(events[1].subscribe().families(), IsEmpty());
}

TEST_F(SessionTest, NoDaemonIsTheAnswerOfOpen) {
  daemon_->unreachable = MakeError(v1::DAEMON_UNREACHABLE, "no such socket");
  EXPECT_EQ(ReasonOf(Open()), v1::DAEMON_UNREACHABLE);
  timers_->Advance(1h);
  EXPECT_EQ(daemon_->sessions_opened(), 1) << "Open does not try again by itself";
}

TEST_F(SessionTest, ADaemonThatDoesNotAnswerIsUnreachable) {
  daemon_->answer_hello = false;
  absl::Status outcome;
  bool answered = false;
  OnExecutor([&] {
    session_->Open([&](absl::Status status) {
      outcome = status;
      answered = true;
    });
  });
  timers_->Advance(4999ms);
  EXPECT_FALSE(answered);
  timers_->Advance(1ms);
  EXPECT_EQ(ReasonOf(outcome), v1::DAEMON_UNREACHABLE);
  EXPECT_THAT(std::string(outcome.message()), HasSubstr("/fake/kcached.sock"));
  EXPECT_THAT(std::string(outcome.message()), HasSubstr("5000 ms"));
}

TEST_F(SessionTest, AnotherProtocolIsTheDaemonsTypedAnswer) {
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (!event.has_hello()) return true;
    daemon_->Fail(0, MakeError(v1::UNSUPPORTED_PROTOCOL_VERSION, "this daemon speaks 2"));
    return true;
  };
  EXPECT_EQ(ReasonOf(Open()), v1::UNSUPPORTED_PROTOCOL_VERSION);
}

TEST_F(SessionTest, RenewsEveryThirdOfTheTtl) {
  daemon_->ttl_ms = 9000;
  ASSERT_TRUE(Open().ok());
  const auto renewals = [this] {
    return daemon_->EventsThat([](const auto& event) { return event.has_renew(); }).size();
  };
  EXPECT_EQ(renewals(), 1u);
  timers_->Advance(2999ms);
  EXPECT_EQ(renewals(), 1u);
  timers_->Advance(1ms);
  EXPECT_EQ(renewals(), 2u);
  timers_->Advance(9s);
  EXPECT_EQ(renewals(), 5u);
}

TEST_F(SessionTest, AnAbsurdTtlIsTakenWithinReason) {
  daemon_->ttl_ms = ~uint64_t{0};
  ASSERT_TRUE(Open().ok());
  timers_->Advance(20min);
  EXPECT_EQ(daemon_->EventsThat([](const auto& event) { return event.has_renew(); }).size(), 2u);
  daemon_->ttl_ms = 0;
  daemon_->ForgetEvents();
  daemon_->Restart();
  timers_->Advance(10ms);
  EXPECT_LE(daemon_->EventsThat([](const auto& event) { return event.has_renew(); }).size(), 2u);
}

TEST_F(SessionTest, WhatOneTaskSendsLeavesInOneMessage) {
  ASSERT_TRUE(Open().ok());
  daemon_->ForgetEvents();
  OnExecutor([&] {
    for (int i = 0; i < 100; ++i) {
      v1::ClientEvent event;
      event.mutable_list_devices();
      session_->Request(std::move(event), {}, [](auto) {});
    }
  });
  EXPECT_EQ(daemon_->messages(), 1u);
  EXPECT_EQ(daemon_->events().size(), 100u);
}

TEST_F(SessionTest, AMessageIsBounded) {
  ASSERT_TRUE(Open().ok());
  daemon_->ForgetEvents();
  OnExecutor([&] {
    for (int i = 0; i < 30; ++i) {
      v1::ClientEvent event;
      event.mutable_nack()->set_why(std::string(100'000, 'x'));
      session_->Note(std::move(event));
    }
  });
  EXPECT_EQ(daemon_->nacks().size(), 30u);
  EXPECT_GE(daemon_->messages(), 3u);
}

TEST_F(SessionTest, WhatIsNotUrgentRidesAlong) {
  ASSERT_TRUE(Open().ok());
  daemon_->ForgetEvents();
  OnExecutor([&] {
    v1::ClientEvent event;
    event.mutable_release();
    session_->Note(std::move(event), Session::Urgency::kSoon);
  });
  EXPECT_EQ(daemon_->messages(), 0u);
  List();
  EXPECT_EQ(daemon_->messages(), 1u);
  EXPECT_EQ(daemon_->releases().size(), 1u);
  OnExecutor([&] {
    v1::ClientEvent event;
    event.mutable_release();
    session_->Note(std::move(event), Session::Urgency::kSoon);
  });
  timers_->Advance(5ms);
  EXPECT_EQ(daemon_->releases().size(), 2u) << "alone, a moment later";
}

TEST_F(SessionTest, ARequestTimesOut) {
  ASSERT_TRUE(Open().ok());
  daemon_->intercept = [](const v1::ClientEvent& event) { return event.has_list_devices(); };
  const auto outcome = List({.timeout = 2s});
  timers_->Advance(1999ms);
  EXPECT_EQ(outcome->code(), absl::StatusCode::kUnknown);
  timers_->Advance(1ms);
  EXPECT_EQ(ReasonOf(*outcome), v1::DEADLINE_EXCEEDED);
}

TEST_F(SessionTest, AnAcquireThatIsGivenUpIsCancelledAndItsGrantUnclaimed) {
  ASSERT_TRUE(Open().ok());
  v1::Acquire held;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    if (event.has_acquire()) held = event.acquire();
    return event.has_acquire();
  };
  absl::Status outcome;
  OnExecutor([&] {
    v1::ClientEvent event;
    event.mutable_acquire()->set_entry("add");
    session_->Request(std::move(event), {.timeout = 1s},
                      [&](auto reply) { outcome = reply.status(); });
  });
  timers_->Advance(1s);
  EXPECT_EQ(ReasonOf(outcome), v1::DEADLINE_EXCEEDED);
  const auto cancels = daemon_->EventsThat([](const auto& e) { return e.has_cancel(); });
  ASSERT_EQ(cancels.size(), 1u);
  EXPECT_EQ(cancels[0].cancel().request_id(), held.request_id());
  daemon_->Grant(held);
  EXPECT_EQ(unclaimed_.size(), 1u);
}

TEST_F(SessionTest, ABrokenStreamResumesAndAsksAgain) {
  ASSERT_TRUE(Open().ok());
  OnExecutor([&] { session_->HandledUpTo(5, v1::PHASE_AFTER); });
  bool hold = true;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    return event.has_list_devices() && hold;
  };
  const auto outcome = List();
  hold = false;
  daemon_->ForgetEvents();
  daemon_->Break();
  timers_->Advance(1ms);
  EXPECT_EQ(resumed_, 1);
  EXPECT_THAT(lost_, IsEmpty());
  EXPECT_TRUE(outcome->ok()) << *outcome;
  const v1::Hello hello = daemon_->events()[0].hello();
  EXPECT_EQ(hello.instance(), std::string(16, 'i'));
  EXPECT_EQ(hello.session_id(), 1u);
  EXPECT_EQ(hello.session_key(), std::string(16, 'k'));
  EXPECT_EQ(hello.last_revision(), 5u);
  EXPECT_EQ(hello.last_phase(), v1::PHASE_AFTER);
}

TEST_F(SessionTest, OnlyUnconfirmedNotesAreSentAgain) {
  ASSERT_TRUE(Open().ok());
  Release(1);
  EXPECT_TRUE(List()->ok());  // the reply confirms what was sent before
  Release(2);
  Release(3);
  daemon_->ForgetEvents();
  daemon_->Break();
  timers_->Advance(1ms);
  EXPECT_THAT(ReleasedSlots(), ElementsAre(2, 3));
  timers_->Advance(3s);  // a renewal confirms, too
  daemon_->ForgetEvents();
  daemon_->Break();
  timers_->Advance(1ms);
  EXPECT_THAT(ReleasedSlots(), IsEmpty());
}

TEST_F(SessionTest, NotesOfAnEarlierSessionAreVoid) {
  ASSERT_TRUE(Open().ok());
  daemon_->intercept = [](const v1::ClientEvent& event) { return event.has_renew(); };
  Release(1);
  daemon_->ForgetEvents();
  daemon_->Restart();
  timers_->Advance(1ms);
  EXPECT_THAT(ReleasedSlots(), IsEmpty());
}

TEST_F(SessionTest, AnotherDaemonMeansEverythingIsLost) {
  ASSERT_TRUE(Open().ok());
  bool hold = true;
  daemon_->intercept = [&](const v1::ClientEvent& event) {
    return (event.has_list_devices() || event.has_clear()) && hold;
  };
  const auto listing = List();
  auto clearing = std::make_shared<absl::Status>();
  OnExecutor([&] {
    v1::ClientEvent event;
    event.mutable_clear();
    session_->Request(std::move(event), {.timeout = std::nullopt, .survives_session = false},
                      [clearing](auto reply) { *clearing = reply.status(); });
  });
  hold = false;
  daemon_->Restart();
  timers_->Advance(1ms);
  ASSERT_EQ(lost_.size(), 1u);
  EXPECT_EQ(ReasonOf(lost_[0]), v1::LEASE_REVOKED);
  EXPECT_THAT(std::string(lost_[0].message()), HasSubstr("restarted"));
  EXPECT_EQ(resumed_, 0);
  EXPECT_TRUE(listing->ok()) << "asked again in the new session";
  EXPECT_EQ(ReasonOf(*clearing), v1::INTERRUPTED);
}

TEST_F(SessionTest, ASessionThatWasReapedIsLostOnTheSameDaemon) {
  ASSERT_TRUE(Open().ok());
  daemon_->resume_known = false;
  daemon_->Break();
  timers_->Advance(1ms);
  ASSERT_EQ(lost_.size(), 1u);
  EXPECT_THAT(std::string(lost_[0].message()), HasSubstr("ended this session"));
}

TEST_F(SessionTest, SessionExpiredOnALiveStreamStartsANewOne) {
  ASSERT_TRUE(Open().ok());
  daemon_->Fail(0, MakeError(v1::SESSION_EXPIRED, "silent for too long"));
  timers_->Advance(1ms);
  EXPECT_EQ(lost_.size(), 1u);
  EXPECT_TRUE(session_->ready());
  EXPECT_EQ(session_->credentials().session_id, 2u);
}

TEST_F(SessionTest, ReconnectsWithGrowingPausesAndFailsWhoWaitsTooLong) {
  ASSERT_TRUE(Open().ok());
  daemon_->unreachable = MakeError(v1::DAEMON_UNREACHABLE, "down");
  daemon_->Break();
  timers_->Advance(1s);
  const int early = daemon_->sessions_opened();
  EXPECT_GT(early, 5);
  const auto outcome = List();
  timers_->Advance(4s);
  EXPECT_EQ(outcome->code(), absl::StatusCode::kUnknown);
  EXPECT_LT(daemon_->sessions_opened(), early + 12);
  timers_->Advance(2s);
  EXPECT_EQ(ReasonOf(*outcome), v1::DAEMON_UNREACHABLE) << *outcome;
  daemon_->unreachable = absl::OkStatus();
  timers_->Advance(1s);
  EXPECT_TRUE(session_->ready());
  EXPECT_TRUE(List()->ok());
}

TEST_F(SessionTest, WhatMustNotBeAskedTwiceFailsWithTheStream) {
  ASSERT_TRUE(Open().ok());
  daemon_->intercept = [](const v1::ClientEvent& event) { return event.has_list_devices(); };
  const auto outcome = List({.timeout = 30s, .repeatable = false});
  daemon_->Break();
  EXPECT_EQ(ReasonOf(*outcome), v1::CONNECTION_LOST);
}

TEST_F(SessionTest, ClosingSaysGoodbyeAndFailsWhatIsOutstanding) {
  ASSERT_TRUE(Open().ok());
  daemon_->intercept = [](const v1::ClientEvent& event) { return event.has_list_devices(); };
  const auto outcome = List();
  bool closed = false;
  OnExecutor([&] { session_->Close([&] { closed = true; }); });
  EXPECT_TRUE(closed);
  EXPECT_EQ(ReasonOf(*outcome), v1::CANCELLED);
  EXPECT_TRUE(daemon_->events().back().has_goodbye());
  EXPECT_EQ(ReasonOf(*List()), v1::CANCELLED);
  timers_->Advance(1min);
  EXPECT_EQ(daemon_->sessions_opened(), 1);
}

}  // namespace
}  // namespace kcache::internal
