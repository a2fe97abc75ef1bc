// HostProcess between a real process and a Device service that the test plays.

#include "daemon/workers/device_host.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <gtest/gtest.h>

#include "daemon/workers/channel.h"
#include "process_fixture.h"

namespace kcache::workers {
namespace {

// Opens at once. Watch ends at once, as it does in a host that shuts its server down before it exits.
class EndingDevice final : public v1::Device::Service {
 public:
  grpc::Status OpenContext(grpc::ServerContext*, const v1::OpenContextRequest*,
                           v1::OpenContextReply*) override {
    return grpc::Status::OK;
  }
  grpc::Status Watch(grpc::ServerContext*, const v1::WatchRequest*,
                     grpc::ServerWriter<v1::HostEvent>* events) override {
    v1::HostEvent event;
    event.mutable_heartbeat();
    events->Write(event);
    return grpc::Status::OK;
  }
};

class ExitObserver final : public core::HostObserver {
 public:
  void OnHeartbeat(const v1::HostUsage&) override { ++heartbeats; }
  void OnLabel(const v1::LabelChange&) override {}
  void OnLost(const v1::ContextLost&) override {}
  void OnSecurityEvent(const v1::SecurityEvent&) override {}
  void OnUnresponsive(std::string_view) override {}
  void OnExited(const core::HostExit& exit) override { exited.set_value(exit); }

  int heartbeats = 0;  // the executor's
  std::promise<core::HostExit> exited;
};

class DeviceHostTest : public ProcessTest {
 protected:
  // Runs `task` on the executor and waits for its value.
  template <class Task>
  auto OnExecutor(Task task) {
    std::promise<decltype(task())> promise;
    executor_.Post([&] { promise.set_value(task()); });
    return promise.get_future().get();
  }
};

// kcached once cancelled the call of a watch that had deleted itself.
TEST_F(DeviceHostTest, TheWatchMayEndLongBeforeTheProcess) {
  auto sockets = MakeControlSocket();
  ASSERT_TRUE(sockets.ok()) << sockets.status();
  EndingDevice device;
  grpc::ServerBuilder builder;
  builder.RegisterService(&device);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const int theirs = sockets->theirs.Release();
  fcntl(theirs, F_SETFL, fcntl(theirs, F_GETFL) | O_NONBLOCK);
  grpc::AddInsecureChannelFromFd(server.get(), theirs);

  ops::Config config;
  HostParts parts{&config, &clock_, &executor_, supervisor_.get()};
  ExitObserver observer;
  std::promise<absl::StatusOr<std::unique_ptr<core::DeviceHost>>> started;
  auto host = std::make_shared<HostProcess>(
      &parts, core::HostSpec{}, &observer,
      [&](absl::StatusOr<std::unique_ptr<core::DeviceHost>> handle) {
        started.set_value(std::move(handle));
      });
  supervisor_->Start(
      Shell("exec sleep 1000"),
      [host, ours = std::move(sockets->ours)](absl::StatusOr<ChildPtr> child) mutable {
        host->OnStarted(std::move(child), std::move(ours));
      },
      [host](const ExitStatus& status) { host->OnExited(status); });
  auto handle = started.get_future().get();
  ASSERT_TRUE(handle.ok()) << handle.status();

  while (OnExecutor([&] { return host->watched(); })) std::this_thread::yield();
  EXPECT_EQ(OnExecutor([&] { return observer.heartbeats; }), 1);

  (*handle)->Kill("the test ends it");
  const core::HostExit exit = observer.exited.get_future().get();
  EXPECT_TRUE(exit.verified);
  EXPECT_FALSE(exit.expected);
  OnExecutor([&] { handle->reset(); return true; });
  server->Shutdown();
}

}  // namespace
}  // namespace kcache::workers
