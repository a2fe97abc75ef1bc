// What kcache-launch lets a process do. Every case runs a real process; where the system allows no
// namespaces, those cases are skipped and say so.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "process_fixture.h"

namespace kcache::workers {
namespace {

using testing::HasSubstr;
using testing::Not;

class LaunchTest : public ProcessTest {
 protected:
  std::string OutputOf(LaunchSpec spec) {
    spec.capture_output = 64 << 10;
    const ExitStatus status = RunToEnd(std::move(spec));
    return status.output + status.last_words;
  }
};

TEST_F(LaunchTest, LimitsHoldAndCannotBeRaised) {
  LaunchSpec spec = Shell("ulimit -n; ulimit -c; ulimit -n 5000 2>/dev/null || echo refused");
  spec.limits = {{"nofile", 77}, {"core", 0}};
  EXPECT_EQ(OutputOf(std::move(spec)), "77\n0\nrefused\n");
}

TEST_F(LaunchTest, ProcessorTimeEndsWithTheSignalThatNamesIt) {
  LaunchSpec spec = Shell("while :; do :; done");
  spec.limits = {{"cpu", 1}};
  EXPECT_EQ(RunToEnd(std::move(spec)).Describe(), "killed by SIGXCPU");
}

TEST_F(LaunchTest, NoCapabilitiesAndNoNewPrivileges) {
  const std::string status = OutputOf(Shell("grep -E 'CapEff|CapBnd|NoNewPrivs' /proc/self/status"));
  EXPECT_THAT(status, HasSubstr("CapEff:\t0000000000000000"));
  EXPECT_THAT(status, HasSubstr("NoNewPrivs:\t1"));
}

TEST_F(LaunchTest, BecomesTheUser) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  LaunchSpec spec = Shell("id -u; id -g; id -G");
  spec.user = LaunchUser{.uid = 65534, .gid = 65534, .own_groups = false};
  EXPECT_EQ(OutputOf(std::move(spec)), "65534\n65534\n65534\n");
}

TEST_F(LaunchTest, TheFilterDeniesNetworkAndNamespaces) {
  LaunchSpec spec = Shell(
      "unshare -U true 2>&1; "
      "perl -e 'use Socket; print socket(S, AF_INET, SOCK_STREAM, 0) ? \"inet\" : \"no inet: $!\"'");
  spec.sandbox.filter = Sandbox::Filter::kCompile;
  const std::string output = OutputOf(std::move(spec));
  EXPECT_THAT(output, HasSubstr("Operation not permitted"));
  EXPECT_THAT(output, HasSubstr("no inet: Address family not supported"));
}

TEST_F(LaunchTest, ACompilerThatNeedsNoProgramsExecutesNone) {
  LaunchSpec spec = Shell("echo alive; /bin/true; echo status $?");
  spec.limits = {{"nofile", 256}};
  spec.sandbox.filter = Sandbox::Filter::kCompile;
  spec.sandbox.no_exec = true;
  const std::string output = OutputOf(std::move(spec));
  EXPECT_THAT(output, HasSubstr("alive"));
  EXPECT_THAT(output, HasSubstr("status 126"));
}

TEST_F(LaunchTest, AnOptionThatDoesNotExistIsRefused) {
  LaunchSpec spec = Shell("");
  spec.limits = {{"nonsense", 1}};
  const ExitStatus status = RunToEnd(std::move(spec));
  EXPECT_EQ(status.code, 126);
  EXPECT_THAT(status.last_words, HasSubstr("nonsense"));
}

class MinimalRootTest : public LaunchTest {
 protected:
  void SetUp() override {
    LaunchTest::SetUp();
    const ExitStatus status = RunToEnd(Isolated("exit 0"));
    if (!status.clean()) GTEST_SKIP() << "no namespaces here: " << status.last_words;
  }
  LaunchSpec Isolated(const std::string& script) {
    std::filesystem::create_directories(directory_ / "own");
    LaunchSpec spec = Shell(script);
    spec.directory = directory_ / "own";
    spec.sandbox.root = Sandbox::Root::kMinimal;
    return spec;
  }
};

TEST_F(MinimalRootTest, ShowsTheSystemAndNothingElse) {
  const std::string output = OutputOf(Isolated("ls -x /; cat /etc/passwd; ls /dev /home /root"));
  EXPECT_THAT(output, HasSubstr("usr"));
  EXPECT_THAT(output, Not(HasSubstr("root:")));
  EXPECT_THAT(output, HasSubstr("/home': No such file"));
  EXPECT_THAT(output, HasSubstr("null"));
  EXPECT_THAT(output, Not(HasSubstr("tty")));
}

TEST_F(MinimalRootTest, OnlyItsOwnDirectoryCanBeWritten) {
  const std::string output =
      OutputOf(Isolated("touch inside && echo wrote; touch /usr/x /x; touch ../x; ls /proc | grep -c "
                        "'^[0-9]'"));
  EXPECT_THAT(output, HasSubstr("wrote"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "own/inside"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "x"));
  EXPECT_THAT(output, HasSubstr("Read-only file system"));
}

TEST_F(MinimalRootTest, SeesNoProcessButItsOwn) {
  // Builtins only, so that there is no third process.
  LaunchSpec spec = Isolated("for p in /proc/[0-9]*; do read -r name <$p/comm; echo $name; done");
  EXPECT_EQ(OutputOf(std::move(spec)), "kcache-launch\nsh\n");
}

// As compiles do, both run as one user.
TEST_F(MinimalRootTest, ProcessesOfOneCommandCountForNoOther) {
  const auto limited = [this](const std::string& script) {
    LaunchSpec spec = Isolated(script);
    if (geteuid() == 0) {
      spec.user = LaunchUser{.uid = 65534, .gid = 65534, .own_groups = false};
      std::filesystem::permissions(directory_.path(), std::filesystem::perms(0755));
      std::filesystem::permissions(directory_ / "own", std::filesystem::perms(0777));
    }
    spec.limits = {{"nproc", 24}};
    spec.sandbox.count_apart = true;
    return spec;
  };
  const ExitStatus can = RunToEnd(limited("exit 0"));
  if (!can.clean()) {
    // Only what the system refuses.
    ASSERT_THAT(can.last_words, testing::AnyOf(HasSubstr("creating a user namespace"),
                                               HasSubstr("writing /proc/self")));
    GTEST_SKIP() << "no user namespace of its own here: " << can.last_words;
  }
  // Every one is stopped on a pipe that nobody writes to.
  const std::string processes =
      "mkfifo pipe.$1; exec 3<>pipe.$1; i=0; while [ $i -lt $2 ]; do read line <&3 & i=$((i+1)); done; ";
  LaunchSpec full = limited("set -- full 18; " + processes + ": >full; wait");
  Running first = Start(std::move(full));
  absl::StatusOr<ChildPtr> child = first.started.get();
  ASSERT_TRUE(child.ok()) << child.status();
  while (!std::filesystem::exists(directory_ / "own/full")) {
    ASSERT_NE(first.exited.wait_for(std::chrono::seconds(0)), std::future_status::ready)
        << first.exited.get().last_words;
    std::this_thread::yield();
  }
  const std::string second = OutputOf(limited("set -- beside 18; " + processes + "echo all; kill 0"));
  EXPECT_THAT(second, HasSubstr("all"));
  EXPECT_THAT(OutputOf(limited("set -- much 40; " + processes + "echo all; kill 0")),
              testing::AllOf(HasSubstr("Cannot fork"), Not(HasSubstr("all"))));
  (*child)->Kill("the test is over");
  first.exited.wait();
}

TEST_F(MinimalRootTest, WhatIsShownCanBeReadAndNotWritten) {
  directory_.Write("toolkit/header.h", "#define X\n");
  LaunchSpec spec = Isolated("cat " + (directory_ / "toolkit/header.h") + "; touch " +
                             (directory_ / "toolkit/y"));
  spec.sandbox.show = {directory_ / "toolkit", "/nonexistent"};
  const std::string output = OutputOf(std::move(spec));
  EXPECT_THAT(output, HasSubstr("#define X"));
  EXPECT_THAT(output, HasSubstr("Read-only file system"));
}

TEST_F(MinimalRootTest, AHiddenRootHidesAndShowsWhatItSays) {
  directory_.Write("secret/key", "secret\n");
  directory_.Write("tools/tool", "tool\n");
  LaunchSpec spec = Isolated("ls " + (directory_ / "secret") + "; cat " + (directory_ / "tools/tool") +
                             "; touch inside && echo wrote; touch " + (directory_ / "new"));
  spec.sandbox.root = Sandbox::Root::kHidden;
  spec.sandbox.hide = {directory_.path()};
  spec.sandbox.show = {directory_ / "tools"};
  const std::string output = OutputOf(std::move(spec));
  EXPECT_THAT(output, Not(HasSubstr("key")));
  EXPECT_THAT(output, HasSubstr("tool\n"));
  EXPECT_THAT(output, HasSubstr("wrote"));
  EXPECT_FALSE(std::filesystem::exists(directory_ / "new"));
  EXPECT_TRUE(std::filesystem::exists(directory_ / "own/inside"));
}

TEST_F(MinimalRootTest, AnotherDirectoryCanBeMadeWritable) {
  for (const Sandbox::Root root : {Sandbox::Root::kMinimal, Sandbox::Root::kHidden}) {
    std::filesystem::create_directories(directory_ / "state/cache");
    std::filesystem::create_directories(directory_ / "state/other");
    std::filesystem::remove(directory_ / "state/cache/kept");
    LaunchSpec spec = Isolated("touch " + (directory_ / "state/cache/kept") +
                               " && echo wrote; ls " + (directory_ / "state") + "; touch " +
                               (directory_ / "state/new"));
    spec.sandbox.root = root;
    spec.sandbox.hide = {directory_ / "state"};
    spec.sandbox.write = {directory_ / "state/cache"};
    const std::string output = OutputOf(std::move(spec));
    EXPECT_THAT(output, HasSubstr("wrote"));
    EXPECT_THAT(output, Not(HasSubstr("other")));
    EXPECT_TRUE(std::filesystem::exists(directory_ / "state/cache/kept"));
    EXPECT_FALSE(std::filesystem::exists(directory_ / "state/new"));
  }
}

}  // namespace
}  // namespace kcache::workers
