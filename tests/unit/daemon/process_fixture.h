// A real executor, a real supervisor and kcache-launch, for tests with processes.

#ifndef KCACHE_TESTS_UNIT_DAEMON_PROCESS_FIXTURE_H_
#define KCACHE_TESTS_UNIT_DAEMON_PROCESS_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <future>
#include <memory>
#include <string>

#include "daemon/ops/boot_clock.h"
#include "daemon/ops/strand_executor.h"
#include "daemon/workers/supervisor.h"
#include "temporary_directory.h"

namespace kcache::workers {

inline std::string BinaryDirectory() {
  const char* directory = std::getenv("KCACHE_BINARY_DIR");
  return directory != nullptr ? directory : ".";
}

inline std::string Launcher() { return BinaryDirectory() + "/daemon/kcache-launch"; }

class ProcessTest : public testing::Test {
 protected:
  void SetUp() override {
    auto supervisor = Supervisor::Create(Launcher(), &executor_);
    ASSERT_TRUE(supervisor.ok()) << supervisor.status();
    supervisor_ = *std::move(supervisor);
  }
  void TearDown() override {
    executor_.Stop();
    supervisor_.reset();
  }

  struct Running {
    std::future<absl::StatusOr<ChildPtr>> started;
    std::future<ExitStatus> exited;
  };

  Running Start(LaunchSpec spec) {
    auto started = std::make_shared<std::promise<absl::StatusOr<ChildPtr>>>();
    auto exited = std::make_shared<std::promise<ExitStatus>>();
    Running running{started->get_future(), exited->get_future()};
    supervisor_->Start(
        std::move(spec),
        [started](absl::StatusOr<ChildPtr> child) { started->set_value(std::move(child)); },
        [exited](const ExitStatus& status) { exited->set_value(status); });
    return running;
  }

  static LaunchSpec Shell(const std::string& script) {
    LaunchSpec spec;
    spec.label = "shell";
    spec.program = "/bin/sh";
    spec.arguments = {"-c", script};
    spec.environment = {"PATH=/usr/bin:/bin"};
    return spec;
  }

  ExitStatus RunToEnd(LaunchSpec spec) { return Start(std::move(spec)).exited.get(); }

  ops::BootClock clock_;
  ops::StrandExecutor executor_{&clock_};
  TemporaryDirectory directory_;
  std::unique_ptr<Supervisor> supervisor_;
};

}  // namespace kcache::workers

#endif  // KCACHE_TESTS_UNIT_DAEMON_PROCESS_FIXTURE_H_
