// Where the daemon may make control groups, each host is in one of its own, and none is left after the
// daemon; where it may not, its status says why.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/chaos/domains/cast.h"
#include "tests/chaos/domains/player.h"
#include "tests/chaos/domains/process_tree.h"
#include "tests/chaos/domains/watcher.h"
#include "tests/integration/domains/users.h"

namespace kcache::domains {
namespace {

// Its control group of version 2: "/system.slice/kcached.service/…".
std::string GroupOf(pid_t pid) {
  std::ifstream file(absl::StrCat("/proc/", pid, "/cgroup"));
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("0::")) return line.substr(3);
  }
  return "";
}

class ControlGroups : public AsUser {};
KCACHE_AS_BOTH_USERS(ControlGroups);

TEST_P(ControlGroups, G8EachHostHasItsOwnOrTheStatusSaysWhyNot) {
  if (!Plays()) return;
  const Cast cast = ChooseCast();
  auto daemon = testing::PrivateDaemon::Start(DaemonFor(cast, {}));
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  std::set<std::string> groups;
  {
    Watcher watcher((*daemon)->admin_socket());
    auto status = watcher.Status();
    ASSERT_TRUE(status.ok()) << status.status();
    const v1::IsolationState& isolation = status->isolation();
    if (!isolation.control_groups()) {
      EXPECT_THAT(isolation.missing(), ::testing::Contains(::testing::StartsWith("control groups: ")));
    } else if (!isolation.control_group_limits()) {
      EXPECT_THAT(isolation.missing(),
                  ::testing::Contains(::testing::StartsWith("memory and process limits of control groups: ")));
    }
    std::vector<std::unique_ptr<Player>> players;
    for (const auto& user : {cast.first, cast.second}) {
      auto player = Player::Start(user, {"launch", (*daemon)->socket(), "OpenCL:0", "groups", "0"},
                                  [](const std::string&) {});
      ASSERT_TRUE(player.ok()) << player.status();
      auto domain = watcher.DomainOf((*player)->pid());
      ASSERT_TRUE(domain.ok()) << domain.status();
      auto host = watcher.HostOf(*domain, "OpenCL", 0);
      ASSERT_TRUE(host.ok()) << host.status();
      const std::string group = GroupOf(*host);
      for (const ProcessEntry& process : Tree(*host)) EXPECT_EQ(GroupOf(process.pid), group);
      if (isolation.control_groups()) {
        EXPECT_THAT(group, ::testing::HasSubstr("-device-host-of-"));
        EXPECT_TRUE(groups.insert(group).second) << "two hosts share " << group;
      }
      players.push_back(*std::move(player));
    }
    for (auto& player : players) EXPECT_TRUE(player->Finish().ok());
  }
  EXPECT_TRUE((*daemon)->Stop().ok()) << (*daemon)->Log();
  for (const std::string& group : groups) {
    for (const char* mount : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      EXPECT_FALSE(std::filesystem::exists(mount + group));
      EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(mount + group).parent_path()));
    }
  }
}

}  // namespace
}  // namespace kcache::domains
