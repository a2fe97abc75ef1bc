// What a host promises about work in flight when those who sent it have gone.

#include "backends/sdk/host.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/sdk/session_engine.h"
#include "contract/error_reason.h"
#include "contract/lease_token.h"

namespace kcache::backend {
namespace {

const std::string kKey(kTokenKeyBytes, 'k');
const std::string kInstance(kInstanceBytes, 'i');
constexpr uint64_t kSession = 5;

// A driver whose launches run until the test lets them end.
class HeldContext : public Context {
 public:
  struct Record {
    Mutex mutex;
    CondVar changed;
    bool held ABSL_GUARDED_BY(mutex) = true;
    int released_kernels ABSL_GUARDED_BY(mutex) = 0;
  };
  explicit HeldContext(std::shared_ptr<Record> record) : record_(std::move(record)) {}

  const v1::DeviceInfo& device() const override { return device_; }
  absl::StatusOr<ModuleHandle> LoadModule(const v1::Artifact&, LoadStatistics*) override {
    return ++last_;
  }
  absl::Status UnloadModule(ModuleHandle) override { return absl::OkStatus(); }
  absl::StatusOr<KernelHandle> ResolveKernel(ModuleHandle, const v1::Specialization&,
                                             v1::KernelInfo*, LoadStatistics*) override {
    return ++last_;
  }
  absl::Status ReleaseKernel(KernelHandle) override {
    MutexLock lock(&record_->mutex);
    ++record_->released_kernels;
    return absl::OkStatus();
  }
  absl::StatusOr<MemoryHandle> Allocate(uint64_t, MemoryKind) override { return ++last_; }
  absl::Status Free(MemoryHandle) override { return absl::OkStatus(); }
  absl::StatusOr<QueueHandle> CreateQueue() override { return ++last_; }
  absl::Status DestroyQueue(QueueHandle) override { return absl::OkStatus(); }
  absl::Status Launch(QueueHandle, const LaunchCommand&) override { return absl::OkStatus(); }
  absl::Status Write(QueueHandle, MemoryHandle, uint64_t, std::string_view) override {
    return absl::OkStatus();
  }
  absl::Status Read(QueueHandle, MemoryHandle, uint64_t, std::span<char>) override {
    return absl::OkStatus();
  }
  absl::Status Copy(QueueHandle, MemoryHandle, uint64_t, MemoryHandle, uint64_t,
                    uint64_t) override {
    return absl::OkStatus();
  }
  absl::Status Fill(QueueHandle, MemoryHandle, uint64_t, uint64_t, std::string_view) override {
    return absl::OkStatus();
  }
  absl::Status Flush(QueueHandle) override { return absl::OkStatus(); }
  absl::StatusOr<MarkerHandle> RecordMarker(QueueHandle) override { return ++last_; }
  absl::Status WaitMarker(MarkerHandle) override {
    MutexLock lock(&record_->mutex);
    while (record_->held) record_->changed.Wait(&record_->mutex);
    return absl::OkStatus();
  }
  absl::Status Close() override { return absl::OkStatus(); }

 private:
  const std::shared_ptr<Record> record_;
  v1::DeviceInfo device_;
  std::atomic<uint64_t> last_{0};
};

class HeldFamily : public Family {
 public:
  explicit HeldFamily(std::shared_ptr<HeldContext::Record> record) : record_(std::move(record)) {}
  std::string_view name() const override { return "Held"; }
  v1::ProbeReport Probe() override { return {}; }
  absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler() override {
    return absl::UnimplementedError("no compiler");
  }
  absl::StatusOr<std::unique_ptr<Context>> OpenContext(const ContextOptions&) override {
    return std::make_unique<HeldContext>(record_);
  }

 private:
  const std::shared_ptr<HeldContext::Record> record_;
};

class CountingSink : public ReplySink {
 public:
  void Send(v1::Reply) override { ++sent; }
  void Close(const absl::Status&) override {}
  std::atomic<int> sent{0};
};

class HostTest : public ::testing::Test {
 protected:
  HostTest()
      : record_(std::make_shared<HeldContext::Record>()),
        family_(record_),
        host_(&family_, nullptr, [](const absl::Status&) {}),
        authority_(TokenAuthority::Create(kKey, kInstance).value()) {
    v1::OpenContextRequest open;
    open.mutable_context()->set_context_id(1);
    open.mutable_context()->set_generation(1);
    open.set_token_key(kKey);
    open.set_instance(kInstance);
    open.mutable_limits()->set_max_queues_per_session(4);
    EXPECT_FALSE(host_.OpenContext(open).has_error());
    v1::LoadRequest load;
    load.set_artifact_key("artifact");
    load.mutable_artifact();
    load.add_items()->set_incarnation(1);
    EXPECT_TRUE(host_.Load(load).ok());
  }
  ~HostTest() override { LetGo(); }

  void LetGo() {
    MutexLock lock(&record_->mutex);
    record_->held = false;
    record_->changed.NotifyAll();
  }
  int ReleasedKernels() {
    MutexLock lock(&record_->mutex);
    return record_->released_kernels;
  }

  // A stream of the session with one launch of slot 0 in flight.
  std::shared_ptr<SessionEngine> Launching() {
    const SessionIdentity identity{.context_id = 1, .generation = 1, .session_id = kSession};
    v1::AttachSession attach;
    attach.set_session_id(kSession);
    attach.mutable_context()->set_context_id(1);
    attach.mutable_context()->set_generation(1);
    attach.set_token(authority_.SignSession(identity).str());
    auto session = host_.Attach(attach, {}, sink_);
    EXPECT_TRUE(session.ok()) << session.status();
    (*session)->Handle(OneLaunch(identity));
    EXPECT_EQ((*session)->in_flight(), 1u);
    return *session;
  }
  std::shared_ptr<v1::ExecutionRequest> OneLaunch(const SessionIdentity& identity) {
    auto request = std::make_shared<v1::ExecutionRequest>();
    v1::LeaseRef* lease = request->add_commands()->mutable_bind()->mutable_lease();
    lease->set_incarnation(1);
    lease->set_mac(
        authority_.SignLease({.session = identity, .slot = 0, .incarnation = 1}).str());
    v1::Launch* launch = request->add_commands()->mutable_launch();
    launch->set_incarnation(1);
    launch->mutable_grid()->set_x(1);
    launch->mutable_local()->set_x(1);
    return request;
  }

  void FenceSlot() {
    v1::FenceRequest fence;
    fence.mutable_slots()->add_slots()->set_incarnation(1);
    EXPECT_TRUE(host_.Fence(fence).ok());
  }
  v1::UnloadReply Unload(uint64_t finish_ms) {
    v1::UnloadRequest unload;
    unload.add_slots()->set_incarnation(1);
    unload.set_finish_ms(finish_ms);
    return host_.Unload(unload).value();
  }

  std::shared_ptr<HeldContext::Record> record_;
  HeldFamily family_;
  Host host_;
  TokenAuthority authority_;
  std::shared_ptr<CountingSink> sink_ = std::make_shared<CountingSink>();
};

TEST_F(HostTest, G1WhatASessionLeftInFlightHoldsOffTheReleaseOfItsKernel) {
  Launching();
  FenceSlot();
  v1::EndSessionRequest end;
  end.set_session_id(kSession);
  EXPECT_FALSE(host_.EndSession(end)->failures().empty());
  EXPECT_FALSE(Unload(0).finished()) << "its launch still runs";
  EXPECT_EQ(ReleasedKernels(), 0);
  EXPECT_EQ(host_.Usage().commands_in_flight(), 1u);
  LetGo();
  EXPECT_TRUE(Unload(60000).finished());
  EXPECT_EQ(ReleasedKernels(), 1);
}

TEST_F(HostTest, G1ATeardownWaitsForWhatAnEndedSessionLeftInFlight) {
  Launching();
  v1::EndSessionRequest end;
  end.set_session_id(kSession);
  EXPECT_TRUE(host_.EndSession(end).ok());
  v1::FenceRequest fence;
  fence.set_context(true);
  EXPECT_TRUE(host_.Fence(fence).ok());
  EXPECT_FALSE(host_.Teardown({})->finished());
  EXPECT_EQ(ReleasedKernels(), 0);
  LetGo();
  v1::TeardownRequest patient;
  patient.set_finish_ms(60000);
  EXPECT_TRUE(host_.Teardown(patient)->finished());
  EXPECT_EQ(ReleasedKernels(), 1);
}

// The daemon makes the next context at this word, while this process still ends.
TEST_F(HostTest, G1ALossIsToldOnlyWhenNobodyIsInsideAnyMore) {
  std::vector<v1::HostEvent> events;  // the labels of what was loaded
  host_.NextEvents(std::chrono::milliseconds(0), &events);
  ASSERT_TRUE(host_.gate()->Enter());
  host_.Lost(MakeError(v1::KERNEL_FAULT, "illegal address"));
  EXPECT_FALSE(host_.gate()->Enter());
  std::atomic<bool> left{false};
  auto told_after_leaving = std::async(std::launch::async, [&] {
    host_.NextEvents(std::chrono::minutes(1), &events);
    return left.load();
  });
  left = true;
  host_.gate()->Leave();
  EXPECT_TRUE(told_after_leaving.get());
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].lost().error().reason(), v1::KERNEL_FAULT);
}

// Its session hears LOST, or that the stream is gone: no answer of a host that knows nothing any more.
TEST_F(HostTest, G1AfterALossNothingIsAdmittedAndNothingAnswered) {
  auto session = Launching();
  host_.Lost(MakeError(v1::KERNEL_FAULT, "illegal address"));
  auto request = OneLaunch({.context_id = 1, .generation = 1, .session_id = kSession});
  request->add_commands()->mutable_synchronize()->set_request_id(7);
  session->Handle(request);
  EXPECT_EQ(session->in_flight(), 1u) << "the one that was there before";
  EXPECT_EQ(sink_->sent, 0);
}

}  // namespace
}  // namespace kcache::backend
