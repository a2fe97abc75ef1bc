// G13: after destroy-device --physical no process of the daemon's has the card open, none opens it while
// it is down, and strangers who have it open are named. The card is a file that the fake's hosts hold open
// the way drivers hold their node.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "contract/grpc_status.h"
#include "kcache/client.h"
#include "kcache/v1/admin.grpc.pb.h"
#include "tests/chaos/domains/cast.h"
#include "tests/chaos/domains/process_tree.h"
#include "tests/integration/domains/users.h"
#include "tests/support/private_daemon.h"

namespace kcache::domains {
namespace {

namespace fs = std::filesystem;

constexpr char kKernel[] = "kernel k(buffer x) {\n  x[i] = 1\n}\n";
const DeviceId kDevice{"Fake", 0};

// How many processes of the daemon's have the file open.
int Holders(pid_t daemon, const std::string& path) {
  struct stat wanted {};
  if (stat(path.c_str(), &wanted) != 0) return -1;
  int holders = 0;
  for (const ProcessEntry& process : Tree(daemon)) {
    std::error_code error;
    const std::string fds = "/proc/" + std::to_string(process.pid) + "/fd";
    for (const auto& fd : fs::directory_iterator(fds, error)) {
      struct stat open {};
      if (stat(fd.path().c_str(), &open) == 0 && open.st_dev == wanted.st_dev &&
          open.st_ino == wanted.st_ino) {
        ++holders;
        break;
      }
    }
  }
  return holders;
}

class Destroy : public AsUser {
 protected:
  void SetUp() override {
    std::string path = "/tmp/kcache-card-XXXXXX";
    const int fd = mkstemp(path.data());
    ASSERT_GE(fd, 0);
    fchmod(fd, 0644);
    ASSERT_EQ(write(fd, "card", 4), 4);
    close(fd);
    card_ = path;
  }
  void TearDown() override { unlink(card_.c_str()); }

  void Start(std::vector<std::string> flags) {
    testing::PrivateDaemonOptions options;
    options.flags = std::move(flags);
    options.flags.emplace_back("--backends.environment=KCACHE_FAKE_SCRIPT");
    options.environment = {{"KCACHE_FAKE_SCRIPT", "node = " + card_}};
    auto daemon = testing::PrivateDaemon::Start(options);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = *std::move(daemon);
    auto client = Client::Connect({.socket = daemon_->socket(), .name = "destroy"});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *client;
    admin_ = v1::Admin::NewStub(grpc::CreateChannel("unix:" + daemon_->admin_socket(),
                                                    grpc::InsecureChannelCredentials()));
  }
  absl::StatusOr<Kernel> Acquire() {
    return client_->Acquire({.program = Program::FromSource("fake", kKernel).value(),
                             .entry = "k",
                             .device = kDevice});
  }
  // The last update of an operation.
  template <class Request>
  v1::OperationResult Run(std::unique_ptr<grpc::ClientReader<v1::OperationUpdate>> (
                              v1::Admin::Stub::*method)(grpc::ClientContext*, const Request&),
                          const Request& request) {
    grpc::ClientContext context;
    auto reader = ((*admin_).*method)(&context, request);
    v1::OperationUpdate update, last;
    while (reader->Read(&update)) last = update;
    const grpc::Status status = reader->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
    return last.result();
  }
  v1::OperationResult DestroyCard(bool stay_down) {
    v1::AdminDestroyRequest request;
    request.mutable_device()->set_framework(kDevice.framework);
    request.set_physical(true);
    request.set_stay_down(stay_down);
    return Run(&v1::Admin::Stub::DestroyDevice, request);
  }

  std::string card_;
  std::unique_ptr<testing::PrivateDaemon> daemon_;
  std::shared_ptr<Client> client_;
  std::unique_ptr<v1::Admin::Stub> admin_;
};
KCACHE_AS_BOTH_USERS(Destroy);

TEST_P(Destroy, G13PhysicalProvesTheCardFreeAndNamesStrangers) {
  if (!Plays()) return;
  ASSERT_NO_FATAL_FAILURE(Start({}));
  ASSERT_TRUE(Acquire().ok());
  ASSERT_EQ(Holders(daemon_->pid(), card_), 1) << "the host has it open";

  const int stranger = open(card_.c_str(), O_RDONLY | O_CLOEXEC);
  const v1::OperationResult result = DestroyCard(/*stay_down=*/true);
  EXPECT_TRUE(result.ok()) << result.ShortDebugString();
  EXPECT_EQ(result.device_free(), "yes") << result.ShortDebugString();
  EXPECT_EQ(Holders(daemon_->pid(), card_), 0);
  ASSERT_EQ(result.foreign_size(), 1) << result.ShortDebugString();
  EXPECT_EQ(result.foreign(0).pid(), getpid());
  EXPECT_EQ(result.foreign(0).node(), card_);
  EXPECT_EQ(result.foreign(0).uid(), geteuid());
  EXPECT_FALSE(result.foreign(0).name().empty());
  close(stranger);

  EXPECT_EQ(FailureReason(Acquire().status()), Reason::kDeviceDown);
  EXPECT_EQ(Holders(daemon_->pid(), card_), 0) << "nobody opens it while it is down";

  v1::DeviceUpRequest up;
  up.mutable_device()->set_framework(kDevice.framework);
  EXPECT_TRUE(Run(&v1::Admin::Stub::DeviceUp, up).ok());
  EXPECT_TRUE(Acquire().ok());
  EXPECT_EQ(Holders(daemon_->pid(), card_), 1);
  EXPECT_EQ(DestroyCard(/*stay_down=*/false).foreign_size(), 0);
  EXPECT_TRUE(daemon_->Stop().ok()) << daemon_->Log();
  // Who, what, result: in the log of the service.
  const std::string who =
      "audit: uid " + std::to_string(geteuid()) + " pid " + std::to_string(getpid()) + ": ";
  EXPECT_THAT(daemon_->Log(), ::testing::HasSubstr(who + "destroy-device Fake:0"));
  EXPECT_THAT(daemon_->Log(), ::testing::HasSubstr(who + "device-up Fake:0: done"));
}

TEST_P(Destroy, G13AnIdleDaemonHoldsNoCard) {
  if (!Plays()) return;
  ASSERT_NO_FATAL_FAILURE(Start({"--hosts.idle=50ms", "--hosts.heartbeat=20ms"}));
  EXPECT_EQ(Holders(daemon_->pid(), card_), 0) << "a context is made when it is asked for";
  ASSERT_TRUE(Acquire().ok());
  EXPECT_EQ(Holders(daemon_->pid(), card_), 1);
  client_->Close();
  // The daemon has no event for this: its processes are looked at again and again.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (Holders(daemon_->pid(), card_) != 0 && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_EQ(Holders(daemon_->pid(), card_), 0);
  EXPECT_TRUE(daemon_->Stop().ok()) << daemon_->Log();
}

}  // namespace
}  // namespace kcache::domains
