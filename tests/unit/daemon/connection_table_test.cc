#include "daemon/rpc/connection_table.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <set>

#include "contract/error_reason.h"

namespace kcache::rpc {
namespace {

class ConnectionTableTest : public testing::Test {
 protected:
  void SetUp() override {
    auto loop = ops::EpollLoop::Create("test");
    ASSERT_TRUE(loop.ok());
    loop_ = *std::move(loop);
  }

  void MakeTable(ConnectionTable::Limits limits = {}) {
    table_ = std::make_unique<ConnectionTable>(loop_.get(), limits, [this](const core::Peer& peer) {
      exited_.set_value(peer.pid);
    });
  }

  // Add belongs to the loop's thread.
  absl::StatusOr<int> Add(ops::UniqueFd socket) {
    std::promise<absl::StatusOr<int>> number;
    loop_->Run([&, socket = std::move(socket)]() mutable {
      number.set_value(table_->Add(std::move(socket)));
    });
    return number.get_future().get();
  }

  struct Pair {
    ops::UniqueFd ours;
    ops::UniqueFd theirs;
  };
  static Pair MakePair() {
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) abort();
    return {ops::UniqueFd(fds[0]), ops::UniqueFd(fds[1])};
  }
  static std::string Name(int number) { return "fd:" + std::to_string(number); }

  void WaitUntilEmpty() {
    while (table_->size() > 0) std::this_thread::yield();
  }

  std::promise<pid_t> exited_;
  std::unique_ptr<ops::EpollLoop> loop_;
  std::unique_ptr<ConnectionTable> table_;
};

TEST_F(ConnectionTableTest, G14APeerIsWhoTheKernelSays) {
  MakeTable();
  Pair pair = MakePair();
  const auto number = Add(std::move(pair.ours));
  ASSERT_TRUE(number.ok()) << number.status();
  const auto peer = table_->Find(Name(*number));
  ASSERT_TRUE(peer.ok()) << peer.status();
  EXPECT_EQ(peer->uid, geteuid());
  EXPECT_EQ(peer->gid, getegid());
  EXPECT_EQ(peer->pid, getpid());
  close(*number);
}

TEST_F(ConnectionTableTest, ANameThatWasNeverAcceptedIsRefused) {
  MakeTable();
  for (const char* name : {"fd:99999", "fd:", "fd:1x", "ipv4:127.0.0.1:80", "", "unix:"}) {
    EXPECT_EQ(ReasonOf(table_->Find(name).status()), v1::PERMISSION_DENIED) << name;
  }
}

TEST_F(ConnectionTableTest, AClosedConnectionIsForgotten) {
  MakeTable();
  Pair pair = MakePair();
  const auto number = Add(std::move(pair.ours));
  ASSERT_TRUE(number.ok());
  pair.theirs.Reset();
  WaitUntilEmpty();
  EXPECT_FALSE(table_->Find(Name(*number)).ok());
  close(*number);
}

// The trap: a number that comes back while somebody still asks for its former owner.
TEST_F(ConnectionTableTest, ANumberDoesNotComeBackSoon) {
  MakeTable();
  std::set<int> seen;
  for (int i = 0; i < 300; ++i) {
    Pair pair = MakePair();
    const auto number = Add(std::move(pair.ours));
    ASSERT_TRUE(number.ok()) << number.status();
    EXPECT_TRUE(seen.insert(*number).second) << *number;
    close(*number);  // as gRPC does
    pair.theirs.Reset();
  }
  WaitUntilEmpty();
}

TEST_F(ConnectionTableTest, G11LimitsAreNamed) {
  MakeTable({.connections = 3, .connections_per_uid = 2});
  Pair first = MakePair();
  Pair second = MakePair();
  Pair third = MakePair();
  const auto one = Add(std::move(first.ours));
  const auto two = Add(std::move(second.ours));
  ASSERT_TRUE(one.ok() && two.ok());
  const auto refused = Add(std::move(third.ours));
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(refused.status().message()),
              testing::HasSubstr("connections.max_per_uid = 2"));
  // A place that is given back can be taken.
  close(*one);
  first.theirs.Reset();
  while (table_->size() > 1) std::this_thread::yield();
  Pair fourth = MakePair();
  const auto again = Add(std::move(fourth.ours));
  EXPECT_TRUE(again.ok()) << again.status();
  close(*again);
  close(*two);
}

TEST_F(ConnectionTableTest, AProcessThatExitsAfterItsConnectionClosedIsStillNoticed) {
  MakeTable();
  const std::string path = testing::TempDir() + "kcache-table-" + std::to_string(getpid());
  const ops::UniqueFd listening(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_storage storage{};
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  address->sa_family = AF_UNIX;
  ASSERT_LT(path.size(), 100u);
  std::copy(path.begin(), path.end(), address->sa_data);
  const socklen_t length = static_cast<socklen_t>(sizeof(sa_family_t) + path.size() + 1);
  unlink(path.c_str());
  ASSERT_EQ(bind(listening.get(), address, length), 0);
  ASSERT_EQ(listen(listening.get(), 8), 0);
  int go[2];
  ASSERT_EQ(pipe(go), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(go[1]);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (connect(fd, address, length) != 0) _exit(1);
    char byte = 0;
    (void)!read(go[0], &byte, 1);  // a byte: close the connection
    close(fd);
    (void)!read(go[0], &byte, 1);  // end of file: exit
    _exit(0);
  }
  close(go[0]);
  const auto number = Add(ops::UniqueFd(accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC)));
  ASSERT_TRUE(number.ok()) << number.status();
  ASSERT_EQ(write(go[1], "x", 1), 1);
  WaitUntilEmpty();
  EXPECT_EQ(table_->watched_processes(), 1u);
  close(go[1]);
  EXPECT_EQ(exited_.get_future().get(), child);
  EXPECT_EQ(table_->watched_processes(), 0u);
  waitpid(child, nullptr, 0);
  unlink(path.c_str());
  close(*number);
}

TEST(ContainerOfTest, ReadsWhatRuntimesWrite) {
  const std::string id(64, 'a');
  EXPECT_EQ(ContainerOf("0::/system.slice/docker-" + id + ".scope\n"), id);
  EXPECT_EQ(ContainerOf("12:cpu:/docker/" + id + "\n0::/\n"), id);
  EXPECT_EQ(ContainerOf("0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" + id + ".scope"),
            id);
  EXPECT_EQ(ContainerOf("0::/machine.slice/libpod-" + id + ".scope/container"), id);
  EXPECT_EQ(ContainerOf("0::/lxc/web/system.slice"), "web");
  EXPECT_EQ(ContainerOf("0::/user.slice/user-1000.slice/session-2.scope"), "");
  EXPECT_EQ(ContainerOf("0::/x/" + id + "b"), "");  // 65 digits are no id
  EXPECT_EQ(ContainerOf(""), "");
  EXPECT_EQ(ContainerOf("garbage"), "");
}

}  // namespace
}  // namespace kcache::rpc
