// A client over a fake daemon, with time and listeners by hand.

#ifndef KCACHE_TESTS_UNIT_CLIENT_CLIENT_FIXTURE_H_
#define KCACHE_TESTS_UNIT_CLIENT_CLIENT_FIXTURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/src/client_impl.h"
#include "fake_daemon.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kcache/client.h"
#include "manual_scheduling.h"

namespace kcache::internal {

using namespace std::chrono_literals;  // NOLINT(google-build-using-namespace)

inline const DeviceId kDevice{"Fake", 0};
inline const DeviceId kOther{"Fake", 1};

class ClientTest : public ::testing::Test {
 protected:
  ClientTest() {
    auto daemon = std::make_unique<FakeDaemon>();
    auto timers = std::make_unique<ManualTimers>();
    auto listeners = std::make_unique<ManualRunner>();
    daemon_ = daemon.get();
    timers_ = timers.get();
    listeners_ = listeners.get();
    runtime_ = std::make_shared<Runtime>();
    runtime_->transport = std::move(daemon);
    runtime_->timers = std::move(timers);
    runtime_->listeners = std::move(listeners);
    options_.name = "test";
    options_.on_problem = [this](const absl::Status& problem) { problems_.push_back(problem); };
  }
  ~ClientTest() override {
    client_ = nullptr;
    listeners_->RunAll();
    timers_->Drop();
  }

  void Connect() {
    auto client = Client::Connect(std::make_shared<ClientImpl>(options_, runtime_));
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *client;
    daemon_->ForgetEvents();
  }

  static Program MakeProgram(const std::string& source = "source") {
    return *Program::FromSource("fake", source);
  }
  KernelRequest Request(const std::string& entry = "add", const DeviceId& device = kDevice) const {
    return {.program = program_, .entry = entry, .device = device};
  }
  Kernel MustAcquire(const std::string& entry = "add", const DeviceId& device = kDevice) {
    absl::StatusOr<Kernel> kernel = client_->Acquire(Request(entry, device));
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    return kernel.ok() ? *kernel : Kernel();
  }
  Queue GetQueue(const DeviceId& device = kDevice, uint32_t number = 0) {
    return *client_->GetQueue(device, number);
  }

  // An event of operation `operation` ("a", "b", …) about the context of a device.
  v1::Invalidate Event(const std::string& operation, v1::InvalidationKind kind, v1::Phase phase,
                       uint32_t index = 0) {
    v1::Invalidate event;
    event.set_operation_id(std::string(16, operation[0]));
    event.set_kind(kind);
    event.set_phase(phase);
    if (kind == v1::INVALIDATE_DEVICE || kind == v1::INVALIDATE_LOST) {
      event.set_family("Fake");
      event.set_index(index);
    }
    *event.mutable_context() = daemon_->context(index);
    event.set_needs_ack(phase == v1::PHASE_BEFORE);
    event.set_reason("test");
    return event;
  }
  void Before(const std::string& operation, v1::InvalidationKind kind, uint32_t index = 0) {
    daemon_->Invalidate(Event(operation, kind, v1::PHASE_BEFORE, index));
  }
  void After(const std::string& operation, v1::InvalidationKind kind, uint32_t index = 0) {
    daemon_->Invalidate(Event(operation, kind, v1::PHASE_AFTER, index));
  }

  static std::string Describe(const InvalidationEvent& event) {
    std::string text = event.phase == EventPhase::kBefore ? "before" : "after";
    switch (event.cause) {
      case EventCause::kDestroyed:
        return text + " destroy";
      case EventCause::kCleared:
        return text + " clear";
      case EventCause::kReset:
        return text + " reset";
      case EventCause::kLost:
        return text + " lost";
      case EventCause::kMissed:
        return text + " missed";
      case EventCause::kSessionLost:
        return text + " session-lost";
    }
    return text;
  }
  // Notes what both kinds of listeners hear.
  void Listen() {
    on_destroy_ = client_->OnDeviceDestroy([this](const DeviceEvent& event) {
      told_.push_back(Describe(event));
      return absl::OkStatus();
    });
    on_clear_ = client_->OnClearAll([this](const ClearEvent& event) {
      if (event.cause == EventCause::kCleared || event.cause == EventCause::kReset) {
        told_.push_back(Describe(event));
      }
      return absl::OkStatus();
    });
  }

  std::shared_ptr<Runtime> runtime_;
  FakeDaemon* daemon_;
  ManualTimers* timers_;
  ManualRunner* listeners_;
  ClientOptions options_;
  std::vector<absl::Status> problems_;
  std::vector<std::string> told_;
  Program program_ = MakeProgram();
  std::shared_ptr<Client> client_;
  Registration on_destroy_;
  Registration on_clear_;
};

}  // namespace kcache::internal

#endif  // KCACHE_TESTS_UNIT_CLIENT_CLIENT_FIXTURE_H_
