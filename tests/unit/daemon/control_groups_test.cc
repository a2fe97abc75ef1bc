// Control groups: what is written where, in a directory that stands in for the kernel's; and with the
// kernel's own, where this process may make some.

#include "daemon/workers/control_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "process_fixture.h"

namespace kcache::workers {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// ---- where --------------------------------------------------------------------------------------

constexpr char kUnified[] =
    "24 30 0:22 / /sys rw shared:7 - sysfs sysfs rw\n"
    "35 24 0:29 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST(OwnGroupDirectory, IsWhereTheGroupIsMounted) {
  auto own = OwnGroupDirectory("0::/system.slice/kcached.service\n", kUnified);
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(*own, "/sys/fs/cgroup/system.slice/kcached.service");
  EXPECT_EQ(*OwnGroupDirectory("0::/\n", kUnified), "/sys/fs/cgroup");
}

TEST(OwnGroupDirectory, BesideVersion1) {
  auto own = OwnGroupDirectory("8:pids:/a\n4:memory:/b\n0::/c\n",
                               "30 24 0:26 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
                               "31 24 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(*own, "/sys/fs/cgroup/unified/c");
}

TEST(OwnGroupDirectory, OfAMountThatShowsAPart) {
  const std::string mounts = "35 24 0:29 /part /with\\040space rw - cgroup2 cgroup2 rw\n";
  EXPECT_EQ(*OwnGroupDirectory("0::/part/mine\n", mounts), "/with space/mine");
  EXPECT_EQ(*OwnGroupDirectory("0::/part\n", mounts), "/with space");
  EXPECT_FALSE(OwnGroupDirectory("0::/partly/mine\n", mounts).ok());
}

TEST(OwnGroupDirectory, NowhereSaysWhy) {
  EXPECT_THAT(OwnGroupDirectory("4:memory:/b\n", kUnified).status().ToString(),
              HasSubstr("version 2"));
  EXPECT_THAT(OwnGroupDirectory("0::/c\n", "").status().ToString(), HasSubstr("/c"));
  // Outside of this cgroup namespace.
  EXPECT_FALSE(OwnGroupDirectory("0::/../other\n", kUnified).ok());
}

// ---- what is written ----------------------------------------------------------------------------

class Kernel {
 public:
  // A group of processes `procs`, with controllers.
  static void Fill(const std::string& directory, const std::string& controllers,
                   const std::string& procs) {
    const std::pair<const char*, std::string> files[] = {{"cgroup.type", "domain\n"},
                                                         {"cgroup.procs", procs},
                                                         {"cgroup.kill", ""},
                                                         {"cgroup.events", "populated 0\nfrozen 0\n"},
                                                         {"cgroup.controllers", controllers},
                                                         {"cgroup.subtree_control", ""},
                                                         {"memory.max", "max\n"},
                                                         {"memory.oom.group", "0\n"},
                                                         {"memory.swap.max", "max\n"},
                                                         {"memory.events", "oom 0\noom_kill 0\n"},
                                                         {"pids.max", "max\n"}};
    for (const auto& [name, text] : files) std::ofstream(directory + "/" + name) << text;
  }
};

class ControlGroupsTest : public testing::Test {
 protected:
  GroupDirectories Directories() {
    return {.make =
                [this](const std::string& path) {
                  if (mkdir(path.c_str(), 0755) != 0) return errno;
                  Kernel::Fill(path, "memory pids\n", "");
                  if (without_kill_) fs::remove(path + "/cgroup.kill");
                  return 0;
                },
            .remove =
                [this](const std::string& path) {
                  killed_[fs::path(path).filename()] = ReadText(path + "/cgroup.kill");
                  fs::remove_all(path);
                  return 0;
                }};
  }
  std::unique_ptr<ControlGroups> OpenWith(const std::string& controllers, const std::string& procs) {
    Kernel::Fill(own_, controllers, procs);
    return ControlGroups::OpenAt(own_, Directories());
  }
  // The one directory of a daemon's below `own_`.
  std::string Base() const {
    for (const auto& entry : fs::directory_iterator(own_)) {
      if (entry.path().filename().string().starts_with("kcached-")) return entry.path();
    }
    return "";
  }

  TemporaryDirectory directory_;
  const std::string own_ = directory_.path();
  const std::string self_ = std::to_string(getpid()) + "\n";
  bool without_kill_ = false;
  std::map<std::string, std::string> killed_;  // what cgroup.kill said when a group was removed
};

TEST_F(ControlGroupsTest, ACompileIsBoundedByTheKernel) {
  auto groups = OpenWith("cpu memory pids\n", self_);
  ASSERT_TRUE(groups->in_force()) << groups->why_not();
  EXPECT_TRUE(groups->limits()) << groups->why_no_limits();
  // Controllers go to groups without processes only, so kcached has left its own.
  EXPECT_EQ(ReadText(own_ + "/main/cgroup.procs"), "0");
  auto group = groups->Make("compile worker of OpenCL", {.memory = 1 << 20, .processes = 77});
  ASSERT_TRUE(group.ok()) << group.status();
  const std::string path = Base() + "/1-compile-worker-of-OpenCL";
  EXPECT_THAT(ReadText(path + "/memory.max"), HasSubstr("1048576"));
  EXPECT_THAT(ReadText(path + "/memory.oom.group"), HasSubstr("1"));
  EXPECT_THAT(ReadText(path + "/memory.swap.max"), HasSubstr("0"));
  EXPECT_THAT(ReadText(path + "/pids.max"), HasSubstr("77"));

  EXPECT_FALSE((*group)->Populated());
  directory_.Write(fs::relative(path + "/cgroup.events", own_), "populated 1\nfrozen 0\n");
  EXPECT_TRUE((*group)->Populated());
  EXPECT_FALSE((*group)->MemoryLimitHit());
  directory_.Write(fs::relative(path + "/memory.events", own_), "oom 1\noom_kill 3\n");
  EXPECT_TRUE((*group)->MemoryLimitHit());
  (*group)->Kill();
  EXPECT_EQ(ReadText(path + "/cgroup.kill"), "1");
  group->reset();
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(ControlGroupsTest, AHostHasAGroupWithoutLimits) {
  auto groups = OpenWith("memory pids\n", self_);
  auto group = groups->Make("device host", {});
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(ReadText(Base() + "/1-device-host/memory.max"), "max\n");
  EXPECT_EQ(ReadText(Base() + "/1-device-host/pids.max"), "max\n");
}

TEST_F(ControlGroupsTest, NamesAreNeverUsedTwice) {
  auto groups = OpenWith("memory pids\n", self_);
  ASSERT_TRUE(groups->Make("probe", {}).ok());
  auto second = groups->Make("probe", {});
  ASSERT_TRUE(second.ok());
  EXPECT_TRUE(fs::exists(Base() + "/2-probe"));
}

TEST_F(ControlGroupsTest, OtherProcessesInItsGroupTakeTheLimitsOnly) {
  auto groups = OpenWith("memory pids\n", "1\n" + self_);
  EXPECT_TRUE(groups->in_force()) << groups->why_not();
  EXPECT_FALSE(groups->limits());
  EXPECT_THAT(groups->why_no_limits(), HasSubstr("other processes"));
  EXPECT_FALSE(fs::exists(own_ + "/main"));
  auto group = groups->Make("compile", {.memory = 1, .processes = 1});
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(ReadText(Base() + "/1-compile/memory.max"), "max\n");
}

TEST_F(ControlGroupsTest, WithoutControllersItSaysWhich) {
  auto groups = OpenWith("hugetlb pids\n", self_);
  EXPECT_TRUE(groups->in_force());
  EXPECT_FALSE(groups->limits());
  EXPECT_THAT(groups->why_no_limits(), HasSubstr("no memory controller"));
}

TEST_F(ControlGroupsTest, ADirectoryThatIsNoneOrNotDelegatedIsLeftAlone) {
  auto groups = ControlGroups::OpenAt(own_, Directories());
  EXPECT_FALSE(groups->in_force());
  EXPECT_THAT(groups->why_not(), HasSubstr(own_));
  EXPECT_TRUE(fs::is_empty(own_));
}

TEST_F(ControlGroupsTest, WithoutKillThereAreNone) {
  without_kill_ = true;
  auto groups = OpenWith("memory pids\n", self_);
  EXPECT_FALSE(groups->in_force());
  EXPECT_THAT(groups->why_not(), HasSubstr("cgroup.kill"));
  EXPECT_EQ(Base(), "");
}

TEST_F(ControlGroupsTest, WhatADaemonThatIsGoneLeftIsEnded) {
  struct stat info {};
  ASSERT_EQ(stat("/proc/self/ns/pid", &info), 0);
  const std::string here = "kcached-" + std::to_string(info.st_ino) + "-";
  // This process, but begun at another time; and one that another pid namespace's daemon has.
  const std::string gone = here + std::to_string(getpid()) + "-1";
  const std::string foreign = "kcached-1-" + std::to_string(getpid()) + "-1";
  for (const std::string& name : {gone, foreign}) {
    fs::create_directories(own_ + "/" + name + "/1-device-host");
    Kernel::Fill(own_ + "/" + name, "", "");
    Kernel::Fill(own_ + "/" + name + "/1-device-host", "", "4711\n");
  }
  auto groups = OpenWith("memory pids\n", self_);
  ASSERT_TRUE(groups->in_force());
  EXPECT_FALSE(fs::exists(own_ + "/" + gone));
  EXPECT_EQ(killed_[gone], "1");
  EXPECT_TRUE(fs::exists(own_ + "/" + foreign + "/1-device-host"));
  fs::remove_all(own_ + "/" + foreign);
  // Its own is not.
  const std::string mine = Base();
  auto second = ControlGroups::OpenAt(own_, {.make = [](const std::string&) { return EEXIST; },
                                             .remove = [](const std::string&) { return 0; }});
  EXPECT_FALSE(second->in_force());
  EXPECT_EQ(ReadText(mine + "/cgroup.kill"), "");
}

TEST_F(ControlGroupsTest, TheEndTakesAll) {
  auto groups = OpenWith("memory pids\n", self_);
  const std::string base = Base();
  auto group = groups->Make("device host", {});
  groups->EndAll();
  EXPECT_EQ(killed_[fs::path(base).filename()], "1");
  EXPECT_FALSE(fs::exists(base));
}

// ---- the kernel's -------------------------------------------------------------------------------

class KernelGroups : public ProcessTest {
 protected:
  void SetUp() override {
    ProcessTest::SetUp();
    groups_ = ControlGroups::Open();
    if (!groups_->in_force()) GTEST_SKIP() << "no control groups here: " << groups_->why_not();
    auto supervisor = Supervisor::Create(Launcher(), &executor_, groups_.get());
    ASSERT_TRUE(supervisor.ok()) << supervisor.status();
    supervisor_ = *std::move(supervisor);
  }
  // Somebody who leaves his session and closes all that he was given; he holds `lock`.
  LaunchSpec Hiding(const std::string& lock, const std::string& then) {
    LaunchSpec spec = Shell("setsid flock " + lock +
                            " sh -c 'echo held > held; exec sleep 1000' </dev/null >/dev/null 2>&1 & "
                            "while ! [ -e held ]; do :; done; " + then);
    spec.directory = directory_.path();
    return spec;
  }
  static bool CanTake(const std::string& lock) {
    return std::system(("flock -n " + lock + " true").c_str()) == 0;
  }

  std::unique_ptr<ControlGroups> groups_;
};

// There is no namespace around these: nothing but the group tells who belongs to whom.
TEST_F(KernelGroups, G8NothingThatHidesOutlivesTheExit) {
  const std::string lock = directory_.Write("lock", "");
  EXPECT_EQ(RunToEnd(Hiding(lock, "exit 3")).code, 3);
  EXPECT_TRUE(CanTake(lock));
}

TEST_F(KernelGroups, G8KillTakesTheWholeGroup) {
  const std::string lock = directory_.Write("lock", "");
  Running running = Start(Hiding(lock, "wait"));
  auto child = running.started.get();
  ASSERT_TRUE(child.ok()) << child.status();
  while (!fs::exists(directory_ / "held")) std::this_thread::yield();
  EXPECT_FALSE(CanTake(lock));
  (*child)->Kill("the test says so");
  EXPECT_EQ(running.exited.get().why, "the test says so");
  EXPECT_TRUE(CanTake(lock));
}

TEST_F(KernelGroups, S28TheNextDaemonEndsWhatTheLastOneLeft) {
  supervisor_.reset();
  groups_.reset();  // the next is this process, too
  struct stat info {};
  ASSERT_EQ(stat("/proc/self/ns/pid", &info), 0);
  auto own = OwnGroupDirectory(ReadText("/proc/self/cgroup"), ReadText("/proc/self/mountinfo"));
  ASSERT_TRUE(own.ok()) << own.status();
  // In a group of this test's own: any other daemon that starts here now would end what is left, too.
  const std::string apart = *own + "/test-" + std::to_string(getpid());
  const std::string base = apart + "/kcached-" + std::to_string(info.st_ino) + "-" +
                           std::to_string(getpid()) + "-1";
  const std::string procs = base + "/1-device-host/cgroup.procs";
  for (const std::string& path : {apart, base, base + "/1-device-host"}) {
    ASSERT_EQ(mkdir(path.c_str(), 0755), 0) << path;
  }
  const std::string join = "echo 0 > " + procs + " && exec sleep 1000";
  const pid_t left = fork();
  if (left == 0) {
    execl("/bin/sh", "sh", "-c", join.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  while (ReadText(procs).empty()) {
    ASSERT_EQ(waitpid(left, &status, WNOHANG), 0) << "it could not join: " << status;
    std::this_thread::yield();
  }
  {
    const auto next = ControlGroups::OpenAt(apart, KernelsDirectories());
    EXPECT_TRUE(next->in_force()) << next->why_not();
    EXPECT_FALSE(fs::exists(base));
  }
  ASSERT_EQ(waitpid(left, &status, 0), left);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  EXPECT_EQ(rmdir(apart.c_str()), 0);
}

TEST_F(KernelGroups, G9MemoryIsLimitedByTheKernel) {
  if (!groups_->limits()) GTEST_SKIP() << groups_->why_no_limits();
  LaunchSpec spec = Shell("tail /dev/zero");
  spec.group.memory = 64 << 20;
  const ExitStatus status = RunToEnd(std::move(spec));
  EXPECT_EQ(status.ended_for, ExitStatus::EndedFor::kMemory);
  EXPECT_THAT(status.why, HasSubstr(std::to_string(64 << 20)));
}

TEST_F(KernelGroups, G9ProcessesAreLimitedByTheKernel) {
  if (!groups_->limits()) GTEST_SKIP() << groups_->why_no_limits();
  LaunchSpec spec = Shell("for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait");
  spec.group.processes = 4;
  const ExitStatus status = RunToEnd(std::move(spec));
  EXPECT_NE(status.code, 0);
  EXPECT_THAT(status.last_words, HasSubstr("fork"));
}

}  // namespace
}  // namespace kcache::workers
