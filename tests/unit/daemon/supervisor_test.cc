#include "daemon/workers/supervisor.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "daemon/workers/tree_use.h"
#include "process_fixture.h"

namespace kcache::workers {
namespace {

using testing::HasSubstr;
using SupervisorTest = ProcessTest;

TEST_F(SupervisorTest, TellsTheExitStatusAndTheLastWords) {
  const ExitStatus status = RunToEnd(Shell("echo first >&2; echo last >&2; exit 7"));
  EXPECT_TRUE(status.verified);
  EXPECT_EQ(status.code, 7);
  EXPECT_EQ(status.Describe(), "exited with 7");
  EXPECT_EQ(status.last_words, "first\nlast\n");
}

TEST_F(SupervisorTest, TellsTheSignal) {
  EXPECT_EQ(RunToEnd(Shell("kill -SEGV $$")).Describe(), "killed by SIGSEGV");
}

TEST_F(SupervisorTest, CapturesOutputAndEndsWhoWritesMore) {
  LaunchSpec spec = Shell("echo hello");
  spec.capture_output = 100;
  EXPECT_EQ(RunToEnd(std::move(spec)).output, "hello\n");
  LaunchSpec endless = Shell("while :; do echo hello; done");
  endless.capture_output = 10000;
  const ExitStatus status = RunToEnd(std::move(endless));
  EXPECT_EQ(status.ended_for, ExitStatus::EndedFor::kOutput);
  EXPECT_THAT(status.why, HasSubstr("10000"));
}

TEST_F(SupervisorTest, KillSaysWhyAndTakesTheWholeGroup) {
  LaunchSpec spec = Shell("sleep 1000 & echo $! >&2; wait");
  spec.directory = directory_.path();
  Running running = Start(std::move(spec));
  auto child = running.started.get();
  ASSERT_TRUE(child.ok()) << child.status();
  (*child)->Kill("the test says so");
  const ExitStatus status = running.exited.get();
  EXPECT_EQ(status.signal, SIGKILL);
  EXPECT_EQ(status.ended_for, ExitStatus::EndedFor::kRequest);
  EXPECT_EQ(status.why, "the test says so");
  (*child)->Kill("again");  // a no-op: the pid may be somebody else's by now
}

TEST_F(SupervisorTest, AProgramThatCannotBeExecutedSaysSo) {
  LaunchSpec spec = Shell("");
  spec.program = "/nonexistent/program";
  const ExitStatus status = RunToEnd(std::move(spec));
  EXPECT_EQ(status.code, 127);
  EXPECT_THAT(status.last_words, HasSubstr("/nonexistent/program"));
}

TEST_F(SupervisorTest, PassesDescriptorsAndNothingElse) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  const ops::UniqueFd read_end(fds[0]);
  LaunchSpec spec = Shell("echo through >&3; ls /proc/self/fd | tr '\\n' ' '");
  spec.descriptors.emplace_back(3, ops::UniqueFd(fds[1]));
  spec.capture_output = 1000;
  const ExitStatus status = RunToEnd(std::move(spec));
  char buffer[64] = {};
  EXPECT_EQ(read(read_end.get(), buffer, sizeof buffer), 8);
  EXPECT_STREQ(buffer, "through\n");
  // 4 is the directory that ls itself reads.
  EXPECT_EQ(status.output, "0 1 2 3 4 ");
}

TEST_F(SupervisorTest, EndsWhoUsesMoreMemoryThanItsLimit) {
  // tail keeps what has no line end: all of it.
  LaunchSpec spec = Shell("tail /dev/zero");
  spec.memory_limit = 64 << 20;
  const ExitStatus status = RunToEnd(std::move(spec));
  EXPECT_EQ(status.ended_for, ExitStatus::EndedFor::kMemory);
  EXPECT_THAT(status.why, HasSubstr(std::to_string(64 << 20)));
}

TEST_F(SupervisorTest, EndsWhoStartsMoreProcessesThanItsLimit) {
  LaunchSpec spec = Shell("for i in $(seq 40); do sleep 1000 & done; wait");
  spec.process_limit = 20;
  const ExitStatus status = RunToEnd(std::move(spec));
  EXPECT_EQ(status.ended_for, ExitStatus::EndedFor::kProcesses);
  EXPECT_THAT(status.why, HasSubstr("more processes than the limit of 20"));
}

// Those that have ended and wait to be reaped are not what is looked for, however many.
TEST_F(SupervisorTest, ProcessesThatEndedHideNoneThatRun) {
  LaunchSpec spec = Shell(
      "exec python3 -c 'import os, signal\n"
      "for i in range(20):\n"
      "  if os.fork() == 0:\n"
      "    signal.pause()\n"
      "for i in range(100):\n"
      "  if os.fork() == 0:\n"
      "    os._exit(0)\n"
      "signal.pause()'");
  spec.process_limit = 10;
  EXPECT_EQ(RunToEnd(std::move(spec)).ended_for, ExitStatus::EndedFor::kProcesses);
}

// Each start arms what looks after limits; none puts it off.
TEST_F(SupervisorTest, LimitsHoldWhileOthersAreStartedWithoutPause) {
  LaunchSpec spec = Shell("for i in $(seq 40); do sleep 1000 & done; wait");
  spec.process_limit = 20;
  Running running = Start(std::move(spec));
  while (running.exited.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    LaunchSpec other = Shell("exit 0");
    other.process_limit = 20;
    EXPECT_TRUE(RunToEnd(std::move(other)).clean());
  }
  EXPECT_EQ(running.exited.get().ended_for, ExitStatus::EndedFor::kProcesses);
}

// A fork bomb is one for its processes, not for the memory that all of them share.
TEST_F(SupervisorTest, WhatProcessesShareCountsOnce) {
  LaunchSpec spec = Shell(
      "exec python3 -c 'import os, signal\n"
      "data = bytearray(os.urandom(1) * (64 << 20))\n"
      "for i in range(7):\n"
      "  if os.fork() == 0:\n"
      "    signal.pause()\n"
      "open(\"ready\", \"w\").close()\n"
      "signal.pause()'");
  spec.directory = directory_.path();
  Running running = Start(std::move(spec));
  auto child = running.started.get();
  ASSERT_TRUE(child.ok()) << child.status();
  while (!std::filesystem::exists(directory_ / "ready")) std::this_thread::yield();
  const TreeUse use = UseOfTree((*child)->pid());
  EXPECT_EQ(use.processes, 8u);
  EXPECT_GT(use.resident_bytes, uint64_t{8 * 64} << 20);
  const uint64_t once = ProportionalBytesOfTree((*child)->pid());
  EXPECT_GT(once, uint64_t{64} << 20);
  EXPECT_LT(once, uint64_t{2 * 64} << 20);
  (*child)->Kill("the test is over");
  running.exited.get();
}

// Compilers run in threads, and the kernel lists children with the thread that forked them.
TEST_F(SupervisorTest, CountsWhatOtherThreadsThanTheFirstHaveStarted) {
  LaunchSpec spec = Shell(
      "exec python3 -c 'import subprocess, threading\n"
      "def start():\n"
      "  subprocess.run([\"tail\", \"/dev/zero\"])\n"
      "thread = threading.Thread(target=start)\n"
      "thread.start()\n"
      "thread.join()'");
  spec.memory_limit = 128 << 20;
  const ExitStatus status = RunToEnd(std::move(spec));
  EXPECT_EQ(status.ended_for, ExitStatus::EndedFor::kMemory) << status.last_words;
}

TEST_F(SupervisorTest, ManyAtOnceAreAllReported) {
  std::vector<Running> running;
  for (int i = 0; i < 40; ++i) running.push_back(Start(Shell("exit " + std::to_string(i))));
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(running[static_cast<size_t>(i)].exited.get().code, i);
  }
}

class NamespaceTest : public ProcessTest {
 protected:
  void SetUp() override {
    ProcessTest::SetUp();
    const ExitStatus status = RunToEnd(Isolated("exit 0"));
    if (!status.clean()) GTEST_SKIP() << "no namespaces here: " << status.last_words;
  }
  LaunchSpec Isolated(const std::string& script) {
    LaunchSpec spec = Shell(script);
    spec.directory = directory_.path();
    spec.sandbox.root = Sandbox::Root::kMinimal;
    spec.sandbox.filter = Sandbox::Filter::kCompile;
    return spec;
  }
};

TEST_F(NamespaceTest, EndsAsTheCommandEnded) {
  EXPECT_EQ(RunToEnd(Isolated("exit 9")).Describe(), "exited with 9");
  EXPECT_EQ(RunToEnd(Isolated("kill -ABRT $$")).Describe(), "killed by SIGABRT");
}

// A process that leaves its group and session, and closes all that it was given, is gone all the same
// when the exit is reported: it held a lock that can then be taken.
TEST_F(NamespaceTest, NothingThatHidesOutlivesTheExit) {
  const std::string lock = directory_.Write("lock", "");
  LaunchSpec spec = Isolated(
      "setsid flock " + lock +
      " sh -c 'echo held > held; exec sleep 1000' </dev/null >/dev/null 2>&1 & "
      "while ! [ -e held ]; do :; done; exit 3");
  const ExitStatus status = RunToEnd(std::move(spec));
  EXPECT_EQ(status.code, 3);
  const std::string take = "flock -n " + lock + " true";
  EXPECT_EQ(std::system(take.c_str()), 0);
}

TEST_F(NamespaceTest, KillTakesTheWholeNamespace) {
  const std::string lock = directory_.Write("lock", "");
  LaunchSpec spec = Isolated("setsid flock " + lock +
                             " sh -c 'echo held > held; exec sleep 1000' & "
                             "while ! [ -e held ]; do :; done; echo ready; wait");
  spec.capture_output = 100;
  Running running = Start(std::move(spec));
  auto child = running.started.get();
  ASSERT_TRUE(child.ok());
  const std::string wait = "while ! [ -e " + (directory_ / "held") + " ]; do :; done";
  ASSERT_EQ(std::system(wait.c_str()), 0);
  (*child)->Kill("the test says so");
  EXPECT_TRUE(running.exited.get().verified);
  const std::string take = "flock -n " + lock + " true";
  EXPECT_EQ(std::system(take.c_str()), 0);
}

}  // namespace
}  // namespace kcache::workers
