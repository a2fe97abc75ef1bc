// What is checked before a launch or a transfer leaves the process (issue "bad input gets").

#include "client_fixture.h"

namespace kcache::internal {
namespace {

using ::testing::HasSubstr;

class LaunchTest : public ClientTest {
 protected:
  void SetUp() override {
    Connect();
    kernel_ = MustAcquire("typed");  // (buffer data, 4-byte n, local memory)
    queue_ = GetQueue();
    buffer_ = *client_->Allocate(kDevice, 64);
  }
  void Expect(const absl::Status& status, Reason reason, const std::string& text) {
    EXPECT_EQ(FailureReason(status), reason) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  Kernel kernel_;
  Queue queue_;
  Buffer buffer_;
  const LaunchConfig one_ = LaunchConfig::Global(1);
};

TEST_F(LaunchTest, GoodArgumentsAreAccepted) {
  EXPECT_TRUE(kernel_.Launch(queue_, one_, buffer_, 5, LocalMemory{16}).ok());
  EXPECT_TRUE(kernel_.Launch(queue_, one_, *buffer_.View(16, 32), 5u, LocalMemory{16}).ok());
  EXPECT_TRUE(kernel_.Launch(queue_, one_, buffer_, 1.0f, LocalMemory{16}).ok());
  EXPECT_TRUE(queue_.Synchronize().ok());
}

TEST_F(LaunchTest, WrongArgumentsAreNamed) {
  Expect(kernel_.Launch(queue_, one_, buffer_, 5), Reason::kInvalidArguments,
         "takes 3 arguments, 2 were given");
  Expect(kernel_.Launch(queue_, one_, 5, 5, LocalMemory{16}), Reason::kInvalidArguments,
         "argument 0 of \"typed\" (data) is a buffer, a value was given");
  Expect(kernel_.Launch(queue_, one_, buffer_, 5.0, LocalMemory{16}), Reason::kInvalidArguments,
         "argument 1 of \"typed\" (n) has 4 bytes, 8 were given");
  Expect(kernel_.Launch(queue_, one_, buffer_, 5, buffer_), Reason::kInvalidArguments,
         "is local memory, a buffer was given");
  Expect(kernel_.Launch(queue_, one_, Buffer(), 5, LocalMemory{16}), Reason::kUnknownBuffer,
         "the buffer is empty");
}

TEST_F(LaunchTest, AKernelWithoutReflectionTakesWhatItGets) {
  const Kernel untyped = MustAcquire("untyped");
  EXPECT_TRUE(untyped.Launch(queue_, one_).ok());
  EXPECT_TRUE(untyped.Launch(queue_, one_, buffer_, 'c', 5ull).ok());
}

TEST_F(LaunchTest, ExtentsAreChecked) {
  const Kernel untyped = MustAcquire("untyped");
  Expect(untyped.Launch(queue_, LaunchConfig()), Reason::kInvalidLaunch, "neither grid nor global");
  LaunchConfig both = LaunchConfig::Grid(1, 1);
  both.global = Dim3(1);
  Expect(untyped.Launch(queue_, both), Reason::kInvalidLaunch, "both grid and global");
  Expect(untyped.Launch(queue_, LaunchConfig::Grid({0, 1, 1}, 1)), Reason::kInvalidLaunch,
         "grid is 0 x 1 x 1");
  Expect(untyped.Launch(queue_, LaunchConfig::Grid(1, {})), Reason::kInvalidLaunch,
         "needs a local size");
  Expect(untyped.Launch(queue_, LaunchConfig::Global(8, {4, 0, 1})), Reason::kInvalidLaunch,
         "local size is 4 x 0 x 1");
}

TEST_F(LaunchTest, ThingsOfAnotherDeviceAreRefused) {
  auto foreign = client_->Allocate(kOther, 64);
  ASSERT_TRUE(foreign.ok());
  Expect(kernel_.Launch(queue_, one_, *foreign, 5, LocalMemory{16}), Reason::kUnknownBuffer,
         "a buffer of Fake:1, but the kernel is on Fake:0");
  Expect(kernel_.Launch(GetQueue(kOther), one_, buffer_, 5, LocalMemory{16}), Reason::kUnknownQueue,
         "a queue of Fake:1");
  Expect(buffer_.CopyFrom(queue_, 0, *foreign, 0, 8), Reason::kUnknownQueue, "the source");
  Expect(Kernel().Launch(queue_, one_), Reason::kLeaseUnknown, "empty");
}

TEST_F(LaunchTest, RangesAreChecked) {
  std::vector<std::byte> bytes(65);
  Expect(buffer_.Write(queue_, 0, bytes), Reason::kBufferOutOfRange,
         "65 bytes at offset 0 of a buffer of 64 bytes");
  Expect(buffer_.Read(queue_, 60, std::span(bytes).first(8)), Reason::kBufferOutOfRange,
         "8 bytes at offset 60");
  Expect(buffer_.Write(queue_, ~uint64_t{0}, std::span(bytes).first(8)), Reason::kBufferOutOfRange,
         "offset 18446744073709551615");
  Expect(buffer_.View(32, 33).status(), Reason::kBufferOutOfRange, "33 bytes at offset 32");
  Expect(buffer_.View(32, 0).status(), Reason::kBufferOutOfRange, "0 bytes");
  Expect(buffer_.Fill(queue_, 0, 64, std::as_bytes(std::span("ab", 3))), Reason::kBadRequest,
         "pattern of 3");
  Expect(client_->GetQueue(kDevice, 5000).status(), Reason::kUnknownQueue, "5000");
}

TEST_F(LaunchTest, BytesTravelThereAndBack) {
  std::vector<int> values(16);
  for (int i = 0; i < 16; ++i) values[static_cast<size_t>(i)] = i * i;
  ASSERT_TRUE(buffer_.Write(queue_, values).ok());
  const int pattern = 7;
  ASSERT_TRUE(buffer_.Fill(queue_, 0, 8, std::as_bytes(std::span(&pattern, 1))).ok());
  auto copy = client_->Allocate(kDevice, 64);
  ASSERT_TRUE(copy->CopyFrom(queue_, 8, buffer_, 0, 56).ok());
  std::vector<int> read(16);
  ASSERT_TRUE(copy->Read(queue_, &read).ok());
  EXPECT_EQ(read[2], 7);
  EXPECT_EQ(read[4], 4);
  EXPECT_EQ(read[15], 13 * 13);
}

TEST_F(LaunchTest, BuffersOfALostContextAreRefusedByName) {
  v1::Invalidate lost = Event("a", v1::INVALIDATE_LOST, v1::PHASE_AFTER);
  daemon_->Invalidate(lost);
  daemon_->NextGeneration(0);
  const Kernel fresh = MustAcquire("typed");
  Expect(fresh.Launch(queue_, one_, buffer_, 5, LocalMemory{16}), Reason::kUnknownBuffer,
         "lost with an earlier context of Fake:0");
}

// A slot and its contexts, a kernel and its client, a registration: none may keep what is closed.
TEST_F(LaunchTest, AClosedClientLetsGoOfEverything) {
  Listen();
  kernel_ = MustAcquire("typed");
  ASSERT_TRUE(client_->Scratch(kDevice, "tag", 16).ok());
  client_->Close();
  kernel_ = Kernel();
  buffer_ = Buffer();
  on_destroy_ = Registration();
  on_clear_ = Registration();
  client_ = nullptr;
  queue_ = Queue();
  timers_->Drop();
  EXPECT_EQ(runtime_.use_count(), 1) << "only the fixture's";
}

TEST_F(LaunchTest, ASynchronizeAfterTheCloseSaysWhatWasLost) {
  daemon_->host(0)->HoldReplies(true);
  ASSERT_TRUE(buffer_.Fill(queue_, 0, 8, std::as_bytes(std::span("abc", 4))).ok());
  kernel_ = Kernel();
  buffer_ = Buffer();
  client_->Close();
  Expect(queue_.Synchronize(), Reason::kCancelled, "closed");
  EXPECT_TRUE(queue_.Synchronize().ok());
}

TEST_F(LaunchTest, ProgramsThatCannotBeAreRefused) {
  Expect(Program::FromSource("", "x").status(), Reason::kBadRequest, "language");
  Expect(ProgramBuilder("fake", "x").AddHeader("../up.h", "").Build().status(), Reason::kBadRequest,
         "up.h");
  Expect(ProgramBuilder("fake", "x").Define("A", "1").Define("A", "2").Build().status(),
         Reason::kBadRequest, "A");
  Expect(ProgramBuilder("fake", "x").Flag("\xff").Build().status(), Reason::kInvalidUtf8, "");
  Expect(ProgramBuilder("fake", "x").AddIncludeDirectory("/no/such/place").Build().status(),
         Reason::kBadRequest, "/no/such/place");
}

TEST_F(LaunchTest, TheDigestIsOfContentAlone) {
  const auto build = [](bool swapped) {
    ProgramBuilder builder("fake", "x");
    if (swapped) builder.AddHeader("b.h", "B").Define("M").AddHeader("a.h", "A").Define("N", "1");
    if (!swapped) builder.AddHeader("a.h", "A").Define("N", "1").AddHeader("b.h", "B").Define("M");
    return builder.Build()->digest();
  };
  EXPECT_EQ(build(true), build(false));
  EXPECT_NE(build(true), Program::FromSource("fake", "x")->digest());
}

}  // namespace
}  // namespace kcache::internal
