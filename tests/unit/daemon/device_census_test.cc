#include "daemon/ops/device_census.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "daemon/ops/unique_fd.h"

namespace kcache::ops {
namespace {

const core::OpenHolder* HolderWithPid(const std::vector<core::OpenHolder>& holders, pid_t pid) {
  for (const core::OpenHolder& holder : holders) {
    if (holder.pid == pid) return &holder;
  }
  return nullptr;
}

TEST(DeviceCensusTest, FindsWhoHasANodeOpenAndWhoIsOurs) {
  const UniqueFd node(open("/dev/full", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(node.valid());
  // A child of ours that has it open, too. It waits for its end of a pipe.
  int fds[2];
  ASSERT_EQ(pipe(fds), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(fds[1]);
    char byte = 0;
    (void)!read(fds[0], &byte, 1);
    _exit(0);
  }
  close(fds[0]);
  const auto as_self = FindHolders("/proc", getpid(), {"/dev/full"});
  const core::OpenHolder* self = HolderWithPid(as_self, getpid());
  ASSERT_NE(self, nullptr);
  EXPECT_TRUE(self->ours);
  EXPECT_EQ(self->node, "/dev/full");
  EXPECT_EQ(self->uid, getuid());
  const core::OpenHolder* ours = HolderWithPid(as_self, child);
  ASSERT_NE(ours, nullptr);
  EXPECT_TRUE(ours->ours);

  // For the child, this process is a foreign holder.
  const auto as_child = FindHolders("/proc", child, {"/dev/full"});
  const core::OpenHolder* foreign = HolderWithPid(as_child, getpid());
  ASSERT_NE(foreign, nullptr);
  EXPECT_FALSE(foreign->ours);

  close(fds[1]);
  waitpid(child, nullptr, 0);
  EXPECT_EQ(HolderWithPid(FindHolders("/proc", getpid(), {"/dev/full"}), child), nullptr);
}

TEST(DeviceCensusTest, ANodeThatNobodyHasOrThatIsNotThereHasNoHolders) {
  const auto holders = FindHolders("/proc", getpid(), {"/dev/kcache-no-such-node"});
  EXPECT_TRUE(holders.empty());
}

}  // namespace
}  // namespace kcache::ops
