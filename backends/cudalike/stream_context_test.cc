#include "backends/cudalike/stream_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "backends/cudalike/fake_stream_api.h"
#include "contract/error_reason.h"

namespace kcache::backend::cudalike {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class StreamContextTest : public testing::Test {
 protected:
  StreamContextTest() : context_(std::make_unique<FakeStreamApi>(world_), v1::DeviceInfo()) {
    queue_ = *context_.CreateQueue();
  }
  ~StreamContextTest() override {
    EXPECT_TRUE(context_.Close().ok());
    EXPECT_TRUE(world_->closed);
    EXPECT_TRUE(world_->objects.empty()) << world_->objects.size() << " objects were not released";
  }

  MemoryHandle Device(uint64_t bytes) { return *context_.Allocate(bytes, MemoryKind::kDevice); }
  void Finish() {
    const auto marker = context_.RecordMarker(queue_);
    ASSERT_TRUE(marker.ok());
    EXPECT_TRUE(context_.WaitMarker(*marker).ok());
  }
  std::string ReadBack(MemoryHandle memory, uint64_t offset, size_t bytes) {
    std::string text(bytes, '?');
    EXPECT_TRUE(context_.Read(queue_, memory, offset, text).ok());
    Finish();
    return text;
  }
  static std::string Noise(size_t bytes) {
    std::string noise(bytes, '\0');
    uint32_t state = 1;
    for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
    return noise;
  }
  KernelHandle Kernel(const std::vector<uint64_t>& sizes) {
    v1::KernelInfo info;
    info.set_entry("k");
    info.set_arguments_known(true);
    for (const uint64_t bytes : sizes) info.add_arguments()->set_bytes(bytes);
    const auto module = context_.LoadModule(v1::Artifact(), &statistics_);
    return *context_.ResolveKernel(*module, {}, &info, &statistics_);
  }

  std::shared_ptr<FakeStreamApi::World> world_ = std::make_shared<FakeStreamApi::World>();
  StreamContext context_;
  LoadStatistics statistics_;
  QueueHandle queue_ = 0;
};

TEST_F(StreamContextTest, CopiesOfEverySizeAtEveryOffset) {
  for (const size_t bytes :
       {size_t{1}, size_t{7}, StreamContext::kDirectWriteBytes,
        StreamContext::kDirectWriteBytes + 1, PinnedPool::kBlockBytes * 3 + 5}) {
    const std::string noise = Noise(bytes);
    const MemoryHandle memory = Device(bytes + 3);
    ASSERT_TRUE(context_.Write(queue_, memory, 3, noise).ok());
    EXPECT_EQ(ReadBack(memory, 3, bytes), noise);
    EXPECT_TRUE(context_.Free(memory).ok());
  }
}

TEST_F(StreamContextTest, AReadArrivesWithItsMarkerAndNotBefore) {
  const MemoryHandle memory = Device(8);
  ASSERT_TRUE(context_.Write(queue_, memory, 0, "arrived!").ok());
  std::string text(8, '?');
  ASSERT_TRUE(context_.Read(queue_, memory, 0, text).ok());
  const auto marker = context_.RecordMarker(queue_);
  EXPECT_EQ(text, "????????");
  ASSERT_TRUE(context_.WaitMarker(*marker).ok());
  EXPECT_EQ(text, "arrived!");
}

TEST_F(StreamContextTest, WithoutPageLockedMemoryCopiesAreDirect) {
  world_->refuse_host_memory = true;
  const std::string noise = Noise(StreamContext::kDirectWriteBytes * 2);
  const MemoryHandle memory = Device(noise.size());
  ASSERT_TRUE(context_.Write(queue_, memory, 0, noise).ok());
  EXPECT_EQ(ReadBack(memory, 0, noise.size()), noise);
  EXPECT_THAT(world_->calls, ElementsAre("htod direct", "dtoh direct"));
}

TEST_F(StreamContextTest, StagingIsBoundedAndComesBack) {
  const size_t all = PinnedPool::kSlabs * PinnedPool::kSlabBytes;
  const std::string noise = Noise(all);
  const MemoryHandle memory = Device(all);
  ASSERT_TRUE(context_.Write(queue_, memory, 0, noise).ok());
  // Every block is taken until a marker says that the copies are done.
  ASSERT_TRUE(context_.Write(queue_, memory, 0, std::string_view(noise).substr(0, all / 2)).ok());
  EXPECT_THAT(world_->calls, Contains("htod direct"));
  Finish();
  world_->calls.clear();
  EXPECT_EQ(ReadBack(memory, 0, all), noise);
  EXPECT_THAT(world_->calls, Not(Contains("dtoh direct")));
}

TEST_F(StreamContextTest, FillsOfEveryPattern) {
  const MemoryHandle memory = Device(100001);
  for (const std::string pattern : {"a", "ab", "abcd", "abcdefgh", "abcdefghijklmnop"}) {
    for (const uint64_t offset : {0, 1, 2, 16}) {
      const uint64_t bytes = 4096 * pattern.size() + pattern.size();
      ASSERT_TRUE(context_.Fill(queue_, memory, offset, bytes, pattern).ok());
      std::string expected;
      while (expected.size() < bytes) expected += pattern;
      EXPECT_EQ(ReadBack(memory, offset, bytes), expected) << pattern << " at " << offset;
    }
  }
  EXPECT_EQ(ReasonOf(context_.Fill(queue_, memory, 0, 7, "ab")), v1::BAD_REQUEST);
}

TEST_F(StreamContextTest, CopiesOnTheDeviceMustNotOverlap) {
  const MemoryHandle memory = Device(16);
  ASSERT_TRUE(context_.Write(queue_, memory, 0, "0123456789abcdef").ok());
  EXPECT_TRUE(context_.Copy(queue_, memory, 0, memory, 8, 8).ok());
  EXPECT_EQ(ReadBack(memory, 0, 16), "0123456701234567");
  EXPECT_EQ(ReasonOf(context_.Copy(queue_, memory, 0, memory, 7, 8)), v1::BAD_REQUEST);
}

TEST_F(StreamContextTest, OutOfMemoryIsAnErrorAndHostMemoryTheWayOut) {
  world_->memory_left = 100;
  EXPECT_EQ(ReasonOf(context_.Allocate(101, MemoryKind::kDevice).status()),
            v1::OUT_OF_DEVICE_MEMORY);
  const auto host = context_.Allocate(101, MemoryKind::kHostVisible);
  ASSERT_TRUE(host.ok());
  ASSERT_TRUE(context_.Write(queue_, *host, 0, "host").ok());
  EXPECT_EQ(ReadBack(*host, 0, 4), "host");
}

TEST_F(StreamContextTest, LaunchesRepeatAndCarryAddresses) {
  const MemoryHandle memory = Device(64);
  KernelArgument buffer;
  buffer.kind = KernelArgument::Kind::kBuffer;
  buffer.memory = memory;
  const std::vector<KernelArgument> arguments = {buffer};
  LaunchCommand command;
  command.kernel = Kernel({8});
  command.arguments = arguments;
  command.repeat = 5;
  ASSERT_TRUE(context_.Launch(queue_, command).ok());
  Finish();
  EXPECT_EQ(world_->launches, 5U);
  EXPECT_NE(world_->last_parameter, 0U);
}

TEST_F(StreamContextTest, LaunchesThatCannotBeAreRefusedWithTheLimit) {
  LaunchCommand command;
  command.kernel = Kernel({});
  command.dynamic_local_bytes = 1001;
  const absl::Status too_much = context_.Launch(queue_, command);
  EXPECT_EQ(ReasonOf(too_much), v1::INVALID_LAUNCH);
  EXPECT_THAT(std::string(too_much.message()), HasSubstr("1001"));
  EXPECT_THAT(std::string(too_much.message()), HasSubstr("1000"));
  command.dynamic_local_bytes = 0;
  command.driver_picks_local = true;
  EXPECT_EQ(ReasonOf(context_.Launch(queue_, command)), v1::INVALID_LAUNCH);
}

TEST_F(StreamContextTest, ResolvingCompletesTheReflection) {
  const auto module = context_.LoadModule(v1::Artifact(), &statistics_);
  v1::KernelInfo info;
  info.set_entry("k<int>");
  info.set_lowered_name("missing");
  EXPECT_EQ(ReasonOf(context_.ResolveKernel(*module, {}, &info, &statistics_).status()),
            v1::UNKNOWN_ENTRY);
  info.set_lowered_name("there");
  const auto kernel = context_.ResolveKernel(*module, {}, &info, &statistics_);
  ASSERT_TRUE(kernel.ok());
  EXPECT_EQ(info.registers(), 17U);
  EXPECT_TRUE(context_.ReleaseKernel(*kernel).ok());
  EXPECT_FALSE(context_.ReleaseKernel(*kernel).ok());
}

TEST_F(StreamContextTest, AFaultIsWhatTheMarkerReturns) {
  const MemoryHandle memory = Device(4);
  std::string text(4, '?');
  ASSERT_TRUE(context_.Read(queue_, memory, 0, text).ok());
  const auto marker = context_.RecordMarker(queue_);
  world_->fault = MakeError(v1::KERNEL_FAULT, "illegal address");
  EXPECT_EQ(ReasonOf(context_.WaitMarker(*marker)), v1::KERNEL_FAULT);
  EXPECT_EQ(text, "????");
  world_->fault = absl::OkStatus();
}

TEST_F(StreamContextTest, HandlesAreNeverReused) {
  const MemoryHandle first = Device(4);
  ASSERT_TRUE(context_.Free(first).ok());
  EXPECT_NE(Device(4), first);
  EXPECT_FALSE(context_.Free(first).ok());
  EXPECT_FALSE(context_.Write(queue_, first, 0, "x").ok());
}

TEST_F(StreamContextTest, QueuesOfSeveralThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([this, i] {
      const QueueHandle queue = *context_.CreateQueue();
      const std::string noise = Noise(StreamContext::kDirectWriteBytes + 100 * (i + 1));
      for (int round = 0; round < 20; ++round) {
        const MemoryHandle memory = *context_.Allocate(noise.size(), MemoryKind::kDevice);
        EXPECT_TRUE(context_.Write(queue, memory, 0, noise).ok());
        std::string text(noise.size(), '?');
        EXPECT_TRUE(context_.Read(queue, memory, 0, text).ok());
        EXPECT_TRUE(context_.WaitMarker(*context_.RecordMarker(queue)).ok());
        EXPECT_EQ(text, noise);
        EXPECT_TRUE(context_.Free(memory).ok());
      }
      EXPECT_TRUE(context_.DestroyQueue(queue).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace kcache::backend::cudalike
