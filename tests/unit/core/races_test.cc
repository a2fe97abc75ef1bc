// Messages that cross each other, come from the past, or name what cannot be.

#include <cstdint>
#include <limits>

#include "tests/unit/core/harness.h"

namespace kcache::core {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class Races : public ::testing::Test {
 protected:
  void SetUp() override {
    client_ = h_.Client();
    grant_ = client_->GrantOf(client_->Acquire(program_, "add"));
    ASSERT_TRUE(grant_);
  }

  int Renewals() const {
    return static_cast<int>(
        std::count_if(client_->events.begin(), client_->events.end(),
                      [](const v1::DaemonEvent& event) { return event.has_renewed(); }));
  }
  uint64_t leases() { return h_.service()->Status().leases(); }

  const TestProgram program_{"kernel add kernel sub "};
  Harness h_;
  std::unique_ptr<TestClient> client_;
  std::optional<v1::Grant> grant_;
};

TEST_F(Races, ARenewalThatCrossesARevocationSavesNothing) {
  client_->acks = false;
  auto told = h_.Destroy("Fake:0");
  h_.executor.Advance(absl::Milliseconds(1999));
  client_->Renew();
  EXPECT_EQ(Renewals(), 1) << "the session lives on";
  EXPECT_FALSE(told->done());
  h_.executor.Advance(absl::Milliseconds(2));
  ASSERT_TRUE(told->done()) << "a renewal is no acknowledgement and extends no grace";
  EXPECT_EQ(told->result().unacked(), 1u);
  EXPECT_EQ(leases(), 0u);
  client_->Renew();
  EXPECT_EQ(Renewals(), 2);
  EXPECT_EQ(leases(), 0u) << "a renewal after the revocation brings nothing back";
}

TEST_F(Races, APausedHolderComesBackToARevokedLease) {
  client_->reads = client_->acks = false;  // stopped
  auto told = h_.Destroy("Fake:0");
  h_.executor.Advance(absl::Seconds(3));
  ASSERT_TRUE(told->done());
  EXPECT_EQ(told->result().unacked(), 1u);
  // The host was told to fence before it released, so what the stopped process sends later finds
  // the fence, whatever it believes.
  const std::vector<std::string>& log = h_.host().log;
  const auto fence = std::find(log.begin(), log.end(), "fence context");
  ASSERT_NE(fence, log.end());
  EXPECT_EQ(std::count(log.begin(), fence, "teardown"), 0);

  client_->reads = true;  // goes on
  client_->Take();
  h_.Settle();
  ASSERT_EQ(client_->Invalidations().size(), 2u);
  EXPECT_EQ(client_->Invalidations()[1].failure().reason(), v1::REVOKED_UNACKED);
  client_->Ack(client_->Invalidations()[0]);  // far too late
  client_->Release(*grant_);
  EXPECT_EQ(leases(), 0u);
  auto again = client_->GrantOf(client_->Acquire(program_, "add"));
  ASSERT_TRUE(again);
  EXPECT_NE(again->context_id(), grant_->context_id());
  EXPECT_EQ(leases(), 1u) << "the late release did not take the new lease";
}

TEST_F(Races, APausedHolderBeyondItsTtlGetsANewSession) {
  client_->reads = client_->acks = false;
  const uint64_t old_session = client_->session_id();
  for (int i = 0; i < 20; ++i) h_.executor.Advance(absl::Seconds(1));
  EXPECT_EQ(h_.service()->Status().sessions(), 0u);
  client_->reads = true;
  client_->CutStream();
  client_->Connect(/*resume=*/true);
  h_.Settle();
  EXPECT_FALSE(client_->welcome().resumed());
  EXPECT_NE(client_->session_id(), old_session);
  EXPECT_EQ(leases(), 0u);
}

// Keeps what is said to it.
class OldStream : public SessionEndpoint {
 public:
  void Wake() override {}
  void Close(absl::Status why) override { closed = std::move(why); }
  std::optional<absl::Status> closed;
};

TEST_F(Races, AnAckOnAStaleStreamDoesNotCount) {
  // The same process has two streams for a moment: the session moves to the second one.
  TestClient* const holder = client_.get();
  holder->acks = false;
  OldStream old;
  std::unique_ptr<SessionStream> stale;
  v1::ClientMessage hello;
  v1::Hello* body = hello.add_events()->mutable_hello();
  body->set_version(v1::PROTOCOL_VERSION_1);
  body->set_instance(holder->welcome().instance());
  body->set_session_id(holder->welcome().session_id());
  body->set_session_key(holder->welcome().session_key());
  h_.executor.Run([&] {
    stale = h_.service()->OpenStream(holder->peer(), &old);
    stale->OnMessage(hello);
  });
  holder->CutStream();
  holder->Connect(/*resume=*/true);
  h_.Settle();
  ASSERT_TRUE(old.closed.has_value()) << "the first one was told that it is over";

  auto told = h_.Destroy("Fake:0");
  ASSERT_EQ(holder->Invalidations().size(), 1u);
  const v1::Invalidate step = holder->Invalidations()[0];
  v1::ClientMessage ack;
  ack.add_events()->mutable_ack()->set_operation_id(step.operation_id());
  ack.mutable_events(0)->mutable_ack()->set_context_id(step.context().context_id());
  h_.executor.Run([&] { stale->OnMessage(ack); });
  h_.Settle();
  EXPECT_TRUE(h_.host().fences.empty()) << "an ack of a stale stream was counted";
  holder->Ack(step);
  EXPECT_TRUE(told->done());
  EXPECT_EQ(told->result().acked(), 1u);
  h_.executor.Run([&] { h_.service()->StreamClosed(std::move(stale)); });
}

TEST_F(Races, AnAckOfAnotherInstancesOperationDoesNotCount) {
  client_->acks = false;
  auto told = h_.Destroy("Fake:0");
  v1::Invalidate foreign = client_->Invalidations().at(0);
  std::string id = foreign.operation_id();
  id[0] = static_cast<char>(id[0] ^ 0x5A);
  foreign.set_operation_id(id);
  client_->Ack(foreign);
  EXPECT_TRUE(h_.host().fences.empty());
  EXPECT_FALSE(told->done());
  client_->Ack(client_->Invalidations().at(0));
  EXPECT_TRUE(told->done());
}

TEST_F(Races, ShutdownDuringADrainEndsBoth) {
  client_->acks = false;
  auto told = h_.Destroy("Fake:0", /*physical=*/false, /*stay_down=*/false, /*grace_ms=*/60000);
  EXPECT_FALSE(told->done());
  bool done = false;
  h_.executor.Run([&] { h_.service()->Shutdown([&] { done = true; }); });
  for (int i = 0; i < 20 && !done; ++i) h_.executor.Advance(absl::Seconds(1));
  EXPECT_TRUE(done) << "a destroy's long grace does not hold up the daemon's end";
  EXPECT_TRUE(told->done()) << "whoever watches it is told how it ended";
  EXPECT_TRUE(h_.host().exited);
}

TEST_F(Races, IdsThatCannotBeAreRefusedOrHarmless) {
  v1::ClientEvent event;
  event.mutable_acquire()->set_request_id(0);
  client_->Send(event);
  ASSERT_TRUE(client_->FailureOf(0));
  EXPECT_EQ(ReasonOf(*client_->FailureOf(0)), v1::BAD_REQUEST);
  EXPECT_THAT(std::string(client_->FailureOf(0)->message()), HasSubstr("request_id is 0"));

  const uint64_t most = std::numeric_limits<uint64_t>::max();
  for (const uint64_t context : {uint64_t{0}, grant_->context_id(), most}) {
    for (const uint32_t slot : {0u, std::numeric_limits<uint32_t>::max()}) {
      v1::ClientEvent release;
      release.mutable_release()->set_context_id(context);
      release.mutable_release()->mutable_lease()->set_slot(slot);
      release.mutable_release()->mutable_lease()->set_incarnation(
          slot == 0 ? 0 : std::numeric_limits<uint32_t>::max());
      client_->Send(release);
    }
    v1::ClientEvent ack;
    ack.mutable_ack()->set_context_id(context);
    ack.mutable_ack()->set_operation_id(std::string(16, '\xFF'));
    client_->Send(ack);
    v1::ClientEvent cancel;
    cancel.mutable_cancel()->set_request_id(context);
    client_->Send(cancel);
  }
  h_.Settle();
  EXPECT_FALSE(client_->closed());
  EXPECT_EQ(leases(), 1u) << "none of these was the lease that is held";
}

TEST_F(Races, AGraceWithoutEndIsTheLongestThatIsAllowed) {
  client_->acks = false;
  auto told = h_.Destroy("Fake:0", false, false, std::numeric_limits<uint64_t>::max());
  const absl::Duration most = Options().limits.max_grace;
  for (absl::Duration past = absl::ZeroDuration(); past < most - absl::Seconds(2);
       past += absl::Seconds(1)) {
    client_->Renew();
    h_.executor.Advance(absl::Seconds(1));
  }
  EXPECT_FALSE(told->done());
  h_.executor.Advance(absl::Seconds(3));
  EXPECT_TRUE(told->done());
  EXPECT_EQ(told->result().unacked(), 1u);
}

TEST_F(Races, WhoReadsNothingIsCutWithTheLimitAndHoldsUpNobody) {
  Options options;
  options.limits.max_outbox_events = 8;
  Harness h(options);
  auto reader = h.Client();
  auto deaf = h.Client();
  ASSERT_TRUE(reader->GrantOf(reader->Acquire(program_, "add")));
  deaf->reads = false;
  // Nothing that it asked for may be dropped, so what it does not take ends its stream.
  for (int i = 0; i < 20; ++i) deaf->Acquire(program_, i % 2 == 0 ? "add" : "sub");
  h.Settle();
  EXPECT_TRUE(deaf->closed());
  EXPECT_THAT(std::string(deaf->close_status().message()), HasSubstr("max_outbox_events"));
  EXPECT_FALSE(reader->closed());
  ASSERT_TRUE(reader->GrantOf(reader->Acquire(program_, "sub")));
}

}  // namespace
}  // namespace kcache::core
