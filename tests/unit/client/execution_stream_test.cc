// Commands to a device host and what comes back, without a client around them.

#include "client/src/execution_stream.h"

#include <thread>

#include "fake_daemon.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "manual_scheduling.h"

namespace kcache::internal {
namespace {

using ::testing::HasSubstr;

constexpr Duration kLongerThanATick = std::chrono::milliseconds(1);

// A transport of nothing but execution.
class HostOnly final : public Transport {
 public:
  std::shared_ptr<SessionStream> OpenSession(std::shared_ptr<SessionStreamObserver>) override {
    return nullptr;
  }
  std::shared_ptr<ExecutionTransport> OpenExecution(
      const std::string&, std::shared_ptr<ExecutionObserver> observer) override {
    return host->Open(std::move(observer));
  }
  void Missing(v1::MissingRequest, std::function<void(absl::StatusOr<v1::MissingReply>)>) override {
  }
  void Upload(v1::UploadRequest, std::vector<BlobPart>,
              std::function<void(absl::StatusOr<v1::UploadReply>)>) override {}
  void Fetch(v1::FetchRequest, std::function<void(absl::StatusOr<std::string>)>) override {}
  void AwaitEnds(std::chrono::milliseconds) override {}  // streams end inside the call
  const std::string& socket() const override { return socket_; }

  std::shared_ptr<FakeHost> host = std::make_shared<FakeHost>();

 private:
  const std::string socket_;
};

class ExecutionStreamTest : public ::testing::Test {
 protected:
  ExecutionStreamTest() {
    auto transport = std::make_unique<HostOnly>();
    auto timers = std::make_unique<ManualTimers>();
    host_ = transport->host;
    timers_ = timers.get();
    runtime_ = std::make_shared<Runtime>();
    runtime_->transport = std::move(transport);
    runtime_->timers = std::move(timers);
    ExecutionStream::Target target;
    target.device = "Fake:0";
    target.attach.set_session_id(7);
    stream_ = std::make_shared<ExecutionStream>(std::move(target), runtime_);
    gate_.lease.set_slot(3);
    gate_.lease.set_incarnation(2);
  }
  ~ExecutionStreamTest() override { stream_->End(absl::CancelledError("the test is over")); }

  absl::Status Launch(uint32_t queue = 0, uint32_t repeat = 1) {
    LaunchConfig config = LaunchConfig::Global(1);
    config.repeat = repeat;
    return stream_->Launch(queue, &gate_, {}, config);
  }
  absl::Status Synchronize(uint32_t queue = 0) {
    absl::Status outcome = absl::UnknownError("no answer");
    stream_->Synchronize(queue, [&](absl::Status status) { outcome = status; });
    return outcome;
  }

  std::shared_ptr<FakeHost> host_;
  ManualTimers* timers_;
  std::shared_ptr<Runtime> runtime_;
  std::shared_ptr<ExecutionStream> stream_;
  LeaseGate gate_;
};

TEST_F(ExecutionStreamTest, AttachesFirstAndBindsOnce) {
  ASSERT_TRUE(Launch().ok());
  ASSERT_TRUE(Launch().ok());
  ASSERT_TRUE(Synchronize().ok());
  const auto commands = host_->commands();
  ASSERT_EQ(commands.size(), 5u);
  EXPECT_EQ(commands[0].attach().session_id(), 7u);
  EXPECT_EQ(commands[1].bind().lease().slot(), 3u);
  EXPECT_EQ(commands[2].launch().slot(), 3u);
  EXPECT_EQ(commands[2].launch().incarnation(), 2u);
  EXPECT_TRUE(commands[3].has_launch());
  EXPECT_TRUE(commands[4].has_synchronize());
  EXPECT_EQ(host_->violations(), 0u);
}

TEST_F(ExecutionStreamTest, ALoneCommandLeavesAtOnceAPipelineInBatches) {
  ASSERT_TRUE(Launch().ok());
  EXPECT_EQ(host_->messages(), 1u);
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Launch().ok());
  EXPECT_EQ(host_->messages(), 1u) << "gathered";
  timers_->Advance(kLongerThanATick);
  EXPECT_EQ(host_->messages(), 2u) << "by the tick";
  EXPECT_EQ(host_->launches(), 101u);
  for (int i = 0; i < 10000; ++i) ASSERT_TRUE(Launch().ok());
  EXPECT_LT(host_->messages(), 100u);
  timers_->Advance(kLongerThanATick);
  EXPECT_EQ(host_->launches(), 10101u);
}

TEST_F(ExecutionStreamTest, WhileTheTransportIsBusyCommandsGather) {
  host_->HoldWrites(true);
  ASSERT_TRUE(Launch().ok());
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(Launch().ok());
  stream_->Flush();
  EXPECT_EQ(host_->messages(), 1u);
  host_->HoldWrites(false);
  EXPECT_EQ(host_->messages(), 2u);
  EXPECT_EQ(host_->launches(), 51u);
}

TEST_F(ExecutionStreamTest, ErrorsSurfaceAtSynchronizeOfTheirQueueOnce) {
  ASSERT_TRUE(Launch(0).ok());
  stream_->Flush();
  host_->FailNext(MakeError(v1::INVALID_LAUNCH, "too large"));
  ASSERT_TRUE(Launch(1).ok());
  EXPECT_TRUE(Synchronize(0).ok());
  const absl::Status failed = Synchronize(1);
  EXPECT_EQ(ReasonOf(failed), v1::INVALID_LAUNCH) << failed;
  EXPECT_TRUE(Synchronize(1).ok());
}

TEST_F(ExecutionStreamTest, AnErrorThatAMarkerLearntIsKeptForTheCaller) {
  host_->max_commands_in_flight = 16;
  ASSERT_TRUE(Launch().ok());
  host_->FailNext(MakeError(v1::KERNEL_FAULT, "first"));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(Launch().ok());
  EXPECT_EQ(ReasonOf(Synchronize()), v1::KERNEL_FAULT);
  EXPECT_TRUE(Synchronize().ok());
}

TEST_F(ExecutionStreamTest, SynchronizeAllTakesEveryQueue) {
  ASSERT_TRUE(Launch(0).ok());
  stream_->Flush();
  host_->FailNext(MakeError(v1::INVALID_LAUNCH, "x"));
  ASSERT_TRUE(Launch(5).ok());
  absl::Status outcome;
  stream_->SynchronizeAll([&](absl::Status status) { outcome = status; });
  EXPECT_EQ(ReasonOf(outcome), v1::INVALID_LAUNCH);
  EXPECT_TRUE(Synchronize(5).ok());
}

TEST_F(ExecutionStreamTest, PositionsCountAsTheHostDoes) {
  ASSERT_TRUE(Launch(0, 1).ok());
  ASSERT_TRUE(Launch(0, 10).ok());
  ASSERT_TRUE(stream_->Write(2, 1, 0, "data").ok());
  const auto positions = stream_->SubmitAll();
  ASSERT_EQ(positions.size(), 2u);
  EXPECT_EQ(positions[0].queue(), 0u);
  EXPECT_EQ(positions[0].sequence(), 11u);
  EXPECT_EQ(positions[1].queue(), 2u);
  EXPECT_EQ(positions[1].sequence(), 1u);
  EXPECT_EQ(host_->launches(), 2u) << "submitted";
}

TEST_F(ExecutionStreamTest, LargeWritesAreSplitAndReadsPutTogether) {
  std::string data(3'000'000, 'x');
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 31 >> 3);
  v1::Command create;
  create.mutable_create_buffer()->set_buffer(9);
  create.mutable_create_buffer()->set_bytes(data.size() + 100);
  stream_->Create(create, [](auto) {});
  ASSERT_TRUE(stream_->Write(0, 9, 100, data).ok());
  std::vector<std::byte> out(data.size());
  absl::Status outcome = absl::UnknownError("none");
  ASSERT_TRUE(stream_->Read(0, 9, 100, out, [&](absl::Status status) { outcome = status; }).ok());
  EXPECT_TRUE(outcome.ok()) << outcome;
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(out.data()), out.size()), data);
  for (const v1::Command& command : host_->commands()) {
    EXPECT_LE(command.write().data().size(), 1u << 20);
  }
}

TEST_F(ExecutionStreamTest, ACallerOverTheWindowWaitsForTheHost) {
  host_->max_commands_in_flight = 64;  // 48 of them are ours
  ASSERT_TRUE(Launch().ok());
  host_->HoldReplies(true);
  std::atomic<int> launched{0};
  std::thread caller([&] {
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(Launch().ok());
      launched.fetch_add(1);
    }
  });
  // It comes to a stop inside the window; then the host gets on.
  while (launched.load() < 40) std::this_thread::yield();
  EXPECT_LT(launched.load(), 64);
  while (launched.load() < 200) {
    host_->HoldReplies(false);
    host_->HoldReplies(true);
    std::this_thread::yield();
  }
  caller.join();
  host_->HoldReplies(false);
  EXPECT_TRUE(Synchronize().ok());
  EXPECT_EQ(host_->launches(), 201u);
}

TEST_F(ExecutionStreamTest, ALaunchLargerThanTheWindowGoesAlone) {
  host_->max_commands_in_flight = 8;
  ASSERT_TRUE(Launch(0, 1).ok());
  ASSERT_TRUE(Launch(0, 1000).ok());
  ASSERT_TRUE(Launch(0, 1).ok());
  EXPECT_TRUE(Synchronize().ok());
  EXPECT_EQ(host_->launches(), 3u);
}

TEST_F(ExecutionStreamTest, AClosedGateAdmitsNothing) {
  LeaseGate* gates[] = {&gate_};
  bool quiet = false;
  stream_->CloseGates(gates, MakeError(v1::LEASE_REVOKED, "cleared"), [&] { quiet = true; });
  EXPECT_TRUE(quiet);
  EXPECT_EQ(ReasonOf(Launch()), v1::LEASE_REVOKED);
  EXPECT_EQ(ReasonOf(stream_->OpenUse(&gate_)), v1::LEASE_REVOKED);
  EXPECT_EQ(host_->launches(), 0u);
}

TEST_F(ExecutionStreamTest, AGateClosesWithTheLastUse) {
  LeaseGate* gates[] = {&gate_};
  ASSERT_TRUE(stream_->OpenUse(&gate_).ok());
  ASSERT_TRUE(stream_->OpenUse(&gate_).ok());
  bool quiet = false;
  stream_->CloseGates(gates, MakeError(v1::LEASE_REVOKED, "cleared"), [&] { quiet = true; });
  EXPECT_EQ(stream_->UsesHoldingOut(), 2u);
  EXPECT_TRUE(Launch().ok());
  stream_->CloseUse(&gate_);
  EXPECT_FALSE(quiet);
  EXPECT_TRUE(Launch().ok());
  stream_->CloseUse(&gate_);
  EXPECT_TRUE(quiet);
  EXPECT_FALSE(Launch().ok());
}

TEST_F(ExecutionStreamTest, TheEndFailsWhatIsOutstandingAndWhatComes) {
  ASSERT_TRUE(Launch().ok());
  host_->HoldReplies(true);
  absl::Status pending;
  stream_->Synchronize(0, [&](absl::Status status) { pending = status; });
  std::vector<std::byte> out(4);
  absl::Status read;
  ASSERT_TRUE(stream_->Read(0, 1, 0, out, [&](absl::Status status) { read = status; }).ok());
  stream_->End(MakeError(v1::DEVICE_DESTROYED, "gone"));
  EXPECT_EQ(ReasonOf(pending), v1::DEVICE_DESTROYED);
  EXPECT_EQ(ReasonOf(read), v1::DEVICE_DESTROYED);
  EXPECT_EQ(ReasonOf(Launch()), v1::DEVICE_DESTROYED);
  EXPECT_EQ(ReasonOf(stream_->Write(0, 1, 0, "x")), v1::DEVICE_DESTROYED);
  stream_->End(MakeError(v1::DEVICE_LOST, "second"));
  EXPECT_EQ(ReasonOf(stream_->ended()), v1::DEVICE_DESTROYED) << "the first reason wins";
}

TEST_F(ExecutionStreamTest, WhatWasNotAskedAboutIsReportedOnceAfterTheEnd) {
  ASSERT_TRUE(Launch(0).ok());
  ASSERT_TRUE(Launch(1).ok());
  ASSERT_TRUE(Synchronize(0).ok());
  stream_->End(MakeError(v1::DEVICE_LOST, "gone"));
  EXPECT_TRUE(Synchronize(0).ok()) << "nothing was taken away";
  EXPECT_EQ(ReasonOf(Synchronize(1)), v1::DEVICE_LOST);
  EXPECT_TRUE(Synchronize(1).ok());
  EXPECT_TRUE(Synchronize(9).ok());
}

TEST_F(ExecutionStreamTest, AHostThatDiesIsDeviceLost) {
  absl::Status broken;
  stream_->set_on_broken([&](absl::Status status) { broken = status; });
  ASSERT_TRUE(Launch().ok());
  host_->Die("killed by SIGSEGV");
  EXPECT_EQ(ReasonOf(broken), v1::DEVICE_LOST);
  EXPECT_THAT(std::string(broken.message()), HasSubstr("Fake:0"));
  EXPECT_THAT(std::string(broken.message()), HasSubstr("killed by SIGSEGV"));
  EXPECT_EQ(ReasonOf(Launch()), v1::DEVICE_LOST);
}

TEST_F(ExecutionStreamTest, AReadThatLiesAboutItsSizeIsAnError) {
  ASSERT_TRUE(Launch().ok());
  host_->HoldReplies(true);
  std::vector<std::byte> out(4);
  absl::Status read;
  ASSERT_TRUE(stream_->Read(0, 1, 0, out, [&](absl::Status status) { read = status; }).ok());
  v1::Reply lie;
  lie.mutable_read_data()->set_request_id(host_->commands().back().read().request_id());
  lie.mutable_read_data()->set_offset(2);
  lie.mutable_read_data()->set_data("abc");
  host_->Push(lie);
  EXPECT_EQ(ReasonOf(read), v1::INTERNAL) << read;
}

TEST_F(ExecutionStreamTest, QueuesBeyondTheLimitAreNamed) {
  const absl::Status refused = Launch(ExecutionStream::kMaxQueues);
  EXPECT_EQ(ReasonOf(refused), v1::UNKNOWN_QUEUE);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("1024"));
}

}  // namespace
}  // namespace kcache::internal
