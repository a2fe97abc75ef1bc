// Bad input: each a typed error that names the value; the daemon, the other clients and the device host
// go on.

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "kcache/client.h"
#include "kcache/v1/session.grpc.pb.h"
#include "tests/integration/main_job/processes.h"
#include "tests/support/private_daemon.h"

namespace kcache {
namespace {

using ::testing::HasSubstr;
using testing::PrivateDaemon;

const DeviceId kDevice{"OpenCL", 0};

class BadInput : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    testing::PrivateDaemonOptions options;
    options.flags = {"--limits.max-source-bytes=64KiB"};
    auto daemon = PrivateDaemon::Start(options);
    ASSERT_TRUE(daemon.ok()) << daemon.status();
    daemon_ = daemon->release();
  }
  static void TearDownTestSuite() {
    EXPECT_TRUE(daemon_->Stop().ok()) << daemon_->Log();
    delete daemon_;
  }
  void SetUp() override {
    auto client = Client::Connect({.socket = daemon_->socket(), .name = "bad-input"});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *client;
    auto good = client_->Acquire(
        {.program = Program::FromSource(
                        "opencl-c",
                        "__kernel void scale(__global float* x, float by, uint n) {\n"
                        "  if (get_global_id(0) < n) x[get_global_id(0)] *= by;\n}")
                        .value(),
         .entry = "scale",
         .device = kDevice});
    ASSERT_TRUE(good.ok()) << good.status();
    good_ = *good;
    queue_ = client_->GetQueue(kDevice).value();
    auto buffer = client_->Allocate(kDevice, 256);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    buffer_ = *std::move(buffer);
  }
  // Everybody goes on: a good launch of this client, and a new client.
  void TearDown() override {
    EXPECT_TRUE(Launch(LaunchConfig::Global({64}, {64}), 2.0f, 64u).ok());
    EXPECT_TRUE(Client::Connect({.socket = daemon_->socket()}).ok());
  }
  template <class... Args>
  absl::Status Launch(const LaunchConfig& config, const Args&... args) {
    absl::Status status = good_.Launch(queue_, config, buffer_, args...);
    if (!status.ok()) return status;
    return queue_.Synchronize();
  }
  absl::StatusOr<Kernel> Acquire(const std::string& source, const std::string& entry,
                                 const DeviceId& device = kDevice) {
    return client_->Acquire(
        {.program = Program::FromSource("opencl-c", source).value(), .entry = entry, .device = device});
  }

  static inline PrivateDaemon* daemon_ = nullptr;
  std::shared_ptr<Client> client_;
  Kernel good_;
  Queue queue_;
  Buffer buffer_;
};

#define EXPECT_FAILS(expression, reason, text)                                   \
  do {                                                                           \
    const absl::Status failed_status = (expression);                             \
    EXPECT_EQ(FailureReason(failed_status), reason) << failed_status;            \
    EXPECT_THAT(std::string(failed_status.message()), HasSubstr(text));          \
  } while (false)

TEST_F(BadInput, UnknownDevice) {
  EXPECT_FAILS(Acquire("__kernel void k() {}", "k", {"OpenCL", 9}).status(),
               Reason::kUnknownDevice, "OpenCL:9");
}

TEST_F(BadInput, SyntaxErrorGivesTheCompilersLog) {
  EXPECT_FAILS(Acquire("__kernel void k() {\n  not a program;\n}", "k").status(),
               Reason::kCompileFailed, ":2:");
}

TEST_F(BadInput, UnknownEntryNamesThoseThatExist) {
  EXPECT_FAILS(Acquire("__kernel void a() {}\n__kernel void b() {}", "c").status(),
               Reason::kUnknownEntry, "a, b");
}

TEST_F(BadInput, ArgumentCount) {
  EXPECT_FAILS(Launch(LaunchConfig::Global({64}, {64}), 2.0f), Reason::kInvalidArguments, "3");
}

TEST_F(BadInput, ArgumentSize) {
  EXPECT_FAILS(Launch(LaunchConfig::Global({64}, {64}), 2.0, 64u), Reason::kInvalidArguments, "8");
}

TEST_F(BadInput, ArgumentKind) {
  EXPECT_FAILS(Launch(LaunchConfig::Global({64}, {64}), buffer_, 64u), Reason::kInvalidArguments,
               "1");
}

TEST_F(BadInput, ZeroGrid) {
  EXPECT_FAILS(Launch(LaunchConfig::Global({0}, {64}), 2.0f, 64u), Reason::kInvalidLaunch, "may be 0");
}

TEST_F(BadInput, OversizedLocalSize) {
  EXPECT_FAILS(Launch(LaunchConfig::Grid({1}, {1u << 20}), 2.0f, 64u), Reason::kInvalidLaunch,
               "1048576");
}

TEST_F(BadInput, GridTimesLocalOverflows) {
  EXPECT_FAILS(Launch(LaunchConfig::Grid({0xFFFFFFFFu}, {64}), 2.0f, 64u), Reason::kInvalidLaunch,
               "limit");
}

TEST_F(BadInput, BufferOutOfRange) {
  std::vector<uint32_t> values(65);
  absl::Status status = buffer_.Write(queue_, values);
  if (status.ok()) status = queue_.Synchronize();
  EXPECT_FAILS(status, Reason::kBufferOutOfRange, "256");
}

TEST_F(BadInput, SourceOverTheLimit) {
  EXPECT_FAILS(Acquire("__kernel void k() {}\n//" + std::string(70000, 'x'), "k").status(),
               Reason::kLimitExceeded, "max_source_bytes");
}

TEST_F(BadInput, NameThatIsNotUtf8) {
  EXPECT_FAILS(Acquire("__kernel void k() {}", "k\xff").status(), Reason::kInvalidUtf8, "entry");
}

TEST_F(BadInput, StaleLease) {
  ASSERT_TRUE(client_->Clear().ok());
  absl::Status status = Launch(LaunchConfig::Global({64}, {64}), 2.0f, 64u);
  EXPECT_EQ(FailureReason(status), Reason::kLeaseRevoked) << status;
  good_ = Acquire("__kernel void scale(__global float* x, float by, uint n) {\n"
                  "  if (get_global_id(0) < n) x[get_global_id(0)] *= by;\n}",
                  "scale")
              .value();
}

TEST_F(BadInput, ADaemonThatIsNotThere) {
  auto client = Client::Connect({.socket = "/tmp/kcache-nobody-here.sock",
                                 .connect_timeout = std::chrono::milliseconds(200)});
  EXPECT_FAILS(client.status(), Reason::kDaemonUnreachable, "/tmp/kcache-nobody-here.sock");
}

TEST_F(BadInput, GarbageBytesOnTheSocket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, daemon_->socket().c_str(), sizeof address.sun_path - 1);
  for (const std::string& garbage :
       {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(4096, '\xff'), std::string(1, '\0'),
        std::string("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") + std::string(64, '\x7f')}) {
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_GT(send(fd, garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
    close(fd);
  }
}

// A stream that does not speak the protocol: the daemon's last words are typed.
v1::Failure FirstAnswer(const std::string& socket, const v1::ClientEvent& first) {
  auto channel = grpc::CreateChannel("unix:" + socket, grpc::InsecureChannelCredentials());
  auto stub = v1::Session::NewStub(channel);
  grpc::ClientContext context;
  auto stream = stub->Open(&context);
  v1::ClientMessage message;
  *message.add_events() = first;
  stream->Write(message);
  v1::DaemonMessage answer;
  v1::Failure failure;
  if (stream->Read(&answer) && answer.events_size() > 0) failure = answer.events(0).failure();
  stream->WritesDone();
  stream->Finish();
  return failure;
}

TEST_F(BadInput, AnotherProtocolVersion) {
  v1::ClientEvent hello;
  hello.mutable_hello()->set_version(static_cast<v1::ProtocolVersion>(7));
  const v1::Failure failure = FirstAnswer(daemon_->socket(), hello);
  EXPECT_EQ(failure.error().reason(), v1::UNSUPPORTED_PROTOCOL_VERSION);
  EXPECT_THAT(failure.error().message(), HasSubstr("7"));
}

TEST_F(BadInput, AStreamThatDoesNotBeginWithHello) {
  v1::ClientEvent renew;
  renew.mutable_renew();
  EXPECT_EQ(FirstAnswer(daemon_->socket(), renew).error().reason(), v1::BAD_REQUEST);
}

}  // namespace
}  // namespace kcache
