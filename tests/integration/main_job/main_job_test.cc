// The main job, with real processes on real OpenCL.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <future>

#include "kcache/client.h"
#include "tests/integration/main_job/processes.h"
#include "tests/support/private_daemon.h"

namespace kcache {
namespace {

using ::testing::HasSubstr;
using testing::Built;
using testing::PrivateDaemon;
using testing::Process;

class MainJob : public ::testing::Test {
 protected:
  void SetUp() override {
    auto daemon = PrivateDaemon::Start({});
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
  }
  void TearDown() override {
    if (daemon_ == nullptr) return;
    EXPECT_TRUE(daemon_->Stop().ok()) << daemon_->Log();
  }
  std::unique_ptr<Process> Worker(const std::string& tag) {
    return Process::Start({Built("tests/integration/main_job/kcache-integration-worker"),
                           daemon_->socket(), tag});
  }
  std::string Ctl(std::vector<std::string> words, int* exit_status = nullptr) {
    std::vector<std::string> command = {Built("client/ctl/kcachectl"), "--admin-socket",
                                        daemon_->admin_socket()};
    command.insert(command.end(), words.begin(), words.end());
    const testing::Finished finished = testing::Run(command);
    if (exit_status != nullptr) *exit_status = finished.exit_status;
    return finished.output;
  }
  std::shared_ptr<Client> Connect() {
    auto client = Client::Connect({.socket = daemon_->socket(), .name = "test"});
    EXPECT_TRUE(client.ok()) << client.status();
    return client.ok() ? *client : nullptr;
  }

  std::unique_ptr<PrivateDaemon> daemon_;
};

TEST_F(MainJob, G4SixteenProcessesReleasedByABarrierCompileOnce) {
  std::vector<std::unique_ptr<Process>> workers;
  for (int i = 0; i < 16; ++i) workers.push_back(Worker("one new key"));
  for (auto& worker : workers) worker->Go();
  int compiled = 0;
  for (auto& worker : workers) {
    const testing::Finished finished = worker->Wait();
    EXPECT_EQ(finished.exit_status, 0) << finished.output;
    compiled += finished.output == "ok compiled\n";
  }
  EXPECT_EQ(compiled, 1);
  EXPECT_THAT(Ctl({"--json", "status"}), HasSubstr("\"compiles\": 1"));
}

TEST_F(MainJob, S3ADyingClientDisturbsNobody) {
  std::vector<std::unique_ptr<Process>> workers;
  for (int i = 0; i < 4; ++i) workers.push_back(Worker("shared key"));
  for (auto& worker : workers) worker->Go();
  kill(workers[0]->pid(), SIGKILL);
  for (size_t i = 1; i < workers.size(); ++i) {
    EXPECT_EQ(workers[i]->Wait().exit_status, 0);
  }
}

TEST_F(MainJob, ALaterProcessLeasesWithoutACompile) {
  EXPECT_EQ(Worker("later")->Wait().output, "ok compiled\n");
  EXPECT_EQ(Worker("later")->Wait().output, "ok warm\n");
}

TEST_F(MainJob, DestroyThenAcquireIsANewGenerationAndTheOldLeaseIsRefused) {
  auto client = Connect();
  const DeviceId device{"OpenCL", 0};
  const Program program =
      Program::FromSource("opencl-c", "__kernel void nothing() {}").value();
  auto old = client->Acquire({.program = program, .entry = "nothing", .device = device});
  ASSERT_TRUE(old.ok()) << old.status();
  std::vector<EventPhase> phases;
  Registration told = client->OnDeviceDestroy([&](const DeviceEvent& event) {
    phases.push_back(event.phase);
    return absl::OkStatus();
  });
  int exit_status = -1;
  Ctl({"destroy-device", "OpenCL:0"}, &exit_status);
  EXPECT_EQ(exit_status, 0);
  auto queue = client->GetQueue(device);
  ASSERT_TRUE(queue.ok());
  absl::Status stale = old->Launch(*queue, LaunchConfig::Grid({1}, {1}));
  if (stale.ok()) stale = queue->Synchronize();
  EXPECT_EQ(FailureReason(stale), Reason::kDeviceDestroyed) << stale;
  auto again = client->Acquire({.program = program, .entry = "nothing", .device = device});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_TRUE(again->Launch(*queue, LaunchConfig::Grid({1}, {1})).ok());
  EXPECT_TRUE(queue->Synchronize().ok());
  told.Unregister();
  EXPECT_EQ(phases, (std::vector<EventPhase>{EventPhase::kBefore, EventPhase::kAfter}));
}

TEST_F(MainJob, S28AKilledDaemonLeavesNothingBehindAndANewOneServes) {
  auto client = Connect();
  const Program program =
      Program::FromSource("opencl-c", "__kernel void nothing() {}").value();
  ASSERT_TRUE(
      client->Acquire({.program = program, .entry = "nothing", .device = {"OpenCL", 0}}).ok());
  EXPECT_TRUE(daemon_->Kill().ok()) << "a host or worker outlived the daemon";
  daemon_ = nullptr;
  SetUp();
  EXPECT_EQ(Worker("after")->Wait().exit_status, 0);
}

TEST_F(MainJob, S22AnIdleSubscriberIsToldOnceBeforeTheRelease) {
  auto holder = Connect(), idle = Connect();
  const Program program =
      Program::FromSource("opencl-c", "__kernel void nothing() {}").value();
  ASSERT_TRUE(
      holder->Acquire({.program = program, .entry = "nothing", .device = {"OpenCL", 0}}).ok());
  std::atomic<int> before{0}, after{0};
  std::promise<void> heard;  // at the first AFTER
  Registration told = idle->OnClearAll([&](const ClearEvent& event) {
    ++(event.phase == EventPhase::kBefore ? before : after);
    if (event.phase == EventPhase::kAfter && after == 1) heard.set_value();
    return absl::OkStatus();
  });
  // A subscription and an operator's command come on two connections: one round trip orders them.
  ASSERT_TRUE(idle->ListDevices().ok());
  int exit_status = -1;
  Ctl({"clear"}, &exit_status);
  EXPECT_EQ(exit_status, 0);
  // Nobody waits for a session that holds nothing, so its listeners may run later than the command
  // returns; they have a thread of their own.
  ASSERT_EQ(heard.get_future().wait_for(std::chrono::minutes(1)), std::future_status::ready);
  ASSERT_TRUE(idle->ListDevices().ok());  // a second AFTER would be ahead of this on its stream
  told.Unregister();                      // waits for a callback that runs
  EXPECT_EQ(before, 1);
  EXPECT_EQ(after, 1);
}

}  // namespace
}  // namespace kcache
