#include "backends/vulkan/context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "backends/vulkan/test_shaders.h"
#include "backends/vulkan/test_support.h"

namespace kcache::backend::vulkan {
namespace {

using ::testing::HasSubstr;

KernelArgument BufferOf(MemoryHandle memory, uint64_t bytes, uint64_t offset = 0) {
  KernelArgument argument;
  argument.kind = KernelArgument::Kind::kBuffer;
  argument.memory = memory;
  argument.offset = offset;
  argument.bytes = bytes;
  return argument;
}

template <class T>
KernelArgument ScalarOf(const T& value) {
  KernelArgument argument;
  argument.scalar = {reinterpret_cast<const char*>(&value), sizeof(value)};
  return argument;
}

template <class T>
std::string_view BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

class ContextTest : public testing::Test {
 protected:
  ContextTest() : family_(log_.Options()) {}

  void SetUp() override {
    auto compiler = family_.MakeCompiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = *std::move(compiler);
    auto context = family_.OpenContext({});
    ASSERT_TRUE(context.ok()) << context.status();
    context_ = *std::move(context);
    auto queue = context_->CreateQueue();
    ASSERT_TRUE(queue.ok()) << queue.status();
    queue_ = *queue;
  }

  void TearDown() override {
    if (context_ != nullptr) {
      EXPECT_TRUE(context_->Close().ok());
    }
    context_.reset();
    compiler_.reset();
    // Among other things, the layer names every object that was not destroyed before its device.
    EXPECT_THAT(log_.messages(), testing::IsEmpty());
  }

  KernelHandle Kernel(const char* source, const v1::Specialization& specialization = {},
                      v1::KernelInfo* info_out = nullptr) {
    auto artifact = compiler_->Compile(GlslRequest(source));
    EXPECT_TRUE(artifact.ok()) << artifact.status();
    if (!artifact.ok()) return 0;
    auto module = context_->LoadModule(*artifact, nullptr);
    EXPECT_TRUE(module.ok()) << module.status();
    if (!module.ok()) return 0;
    v1::KernelInfo info = artifact->kernels(0);
    LoadStatistics statistics;
    auto kernel = context_->ResolveKernel(*module, specialization, &info, &statistics);
    EXPECT_TRUE(kernel.ok()) << kernel.status();
    if (info_out != nullptr) *info_out = info;
    return kernel.ok() ? *kernel : 0;
  }

  MemoryHandle Memory(uint64_t bytes) {
    auto memory = context_->Allocate(bytes, MemoryKind::kDevice);
    EXPECT_TRUE(memory.ok()) << memory.status();
    return memory.ok() ? *memory : 0;
  }

  absl::Status Finish(QueueHandle queue) {
    auto marker = context_->RecordMarker(queue);
    return marker.ok() ? context_->WaitMarker(*marker) : marker.status();
  }

  template <class T>
  std::vector<T> Contents(MemoryHandle memory, size_t count) {
    std::vector<T> values(count);
    EXPECT_TRUE(
        context_
            ->Read(queue_, memory, 0, {reinterpret_cast<char*>(values.data()), count * sizeof(T)})
            .ok());
    EXPECT_TRUE(Finish(queue_).ok());
    return values;
  }

  static LaunchCommand Command(KernelHandle kernel, Extent grid, Extent local,
                               std::span<const KernelArgument> arguments) {
    LaunchCommand command;
    command.kernel = kernel;
    command.grid = grid;
    command.local = local;
    command.global = {grid.x * local.x, grid.y * local.y, grid.z * local.z};
    command.arguments = arguments;
    return command;
  }

  ValidationLog log_;
  VulkanFamily family_;
  std::unique_ptr<Compiler> compiler_;
  std::unique_ptr<Context> context_;
  QueueHandle queue_ = 0;
};

TEST_F(ContextTest, SaxpyWithScalarsAndWithPushConstants) {
  constexpr uint32_t kCount = 1000;
  const KernelHandle kernel = Kernel(kSaxpy);
  std::vector<float> a(kCount), b(kCount);
  std::iota(a.begin(), a.end(), 0.0f);
  std::iota(b.begin(), b.end(), 7.0f);
  const uint64_t bytes = kCount * sizeof(float);
  const MemoryHandle ma = Memory(bytes), mb = Memory(bytes), sum = Memory(bytes);
  KCACHE_ASSERT_OK(context_->Write(queue_, ma, 0, BytesOf(a)));
  KCACHE_ASSERT_OK(context_->Write(queue_, mb, 0, BytesOf(b)));
  const uint32_t count = kCount;
  const float scale = 3.0f;
  const std::vector<KernelArgument> all = {BufferOf(ma, bytes), BufferOf(mb, bytes),
                                           BufferOf(sum, bytes), ScalarOf(count), ScalarOf(scale)};
  KCACHE_ASSERT_OK(context_->Launch(queue_, Command(kernel, {16, 1, 1}, {64, 1, 1}, all)));
  std::vector<float> result = Contents<float>(sum, kCount);
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(result[i], a[i] + 3.0f * b[i]) << i;

  struct {
    uint32_t count;
    float scale;
  } block = {kCount, 10.0f};
  LaunchCommand command = Command(kernel, {16, 1, 1}, {64, 1, 1}, std::span(all).first(3));
  command.push_constants = {reinterpret_cast<const char*>(&block), sizeof(block)};
  KCACHE_ASSERT_OK(context_->Launch(queue_, command));
  result = Contents<float>(sum, kCount);
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(result[i], a[i] + 10.0f * b[i]) << i;
}

TEST_F(ContextTest, ArgumentsAreChecked) {
  const KernelHandle kernel = Kernel(kSaxpy);
  const MemoryHandle memory = Memory(4096);
  const uint32_t word = 1;
  const auto launch = [&](std::vector<KernelArgument> arguments, Extent local = {64, 1, 1},
                          Extent grid = {1, 1, 1}) {
    return context_->Launch(queue_, Command(kernel, grid, local, arguments));
  };
  const KernelArgument buffer = BufferOf(memory, 4096);
  EXPECT_EQ(ReasonOf(launch({buffer, buffer})), v1::INVALID_ARGUMENTS);
  EXPECT_EQ(ReasonOf(launch({buffer, buffer, buffer})), v1::INVALID_ARGUMENTS);  // no scalars
  EXPECT_EQ(ReasonOf(launch({buffer, buffer, ScalarOf(word), ScalarOf(word), ScalarOf(word)})),
            v1::INVALID_ARGUMENTS);
  const double wide = 1;
  EXPECT_EQ(ReasonOf(launch({buffer, buffer, buffer, ScalarOf(word), ScalarOf(wide)})),
            v1::INVALID_ARGUMENTS);
  EXPECT_EQ(
      ReasonOf(launch({BufferOf(memory, 4097), buffer, buffer, ScalarOf(word), ScalarOf(word)})),
      v1::BUFFER_OUT_OF_RANGE);
  const std::vector<KernelArgument> good = {buffer, buffer, buffer, ScalarOf(word), ScalarOf(word)};
  EXPECT_EQ(ReasonOf(launch(good, {32, 1, 1})), v1::INVALID_LAUNCH);  // the shader says 64
  EXPECT_EQ(ReasonOf(launch(good, {64, 1, 1}, {0, 1, 1})), v1::INVALID_LAUNCH);
  EXPECT_EQ(ReasonOf(launch(good, {64, 1, 1}, {1, 1, 70000})), v1::INVALID_LAUNCH);
  LaunchCommand odd = Command(kernel, {1, 1, 1}, {64, 1, 1}, good);
  odd.driver_picks_local = true;
  odd.global = {65, 1, 1};
  EXPECT_EQ(ReasonOf(context_->Launch(queue_, odd)), v1::INVALID_LAUNCH);
  odd.global = {128, 1, 1};
  KCACHE_ASSERT_OK(context_->Launch(queue_, odd));
  odd.dynamic_local_bytes = 16;
  EXPECT_EQ(ReasonOf(context_->Launch(queue_, odd)), v1::INVALID_LAUNCH);
  KCACHE_ASSERT_OK(Finish(queue_));
}

TEST_F(ContextTest, ThreeDimensionsWithAChosenLocalSize) {
  v1::Specialization specialization;
  specialization.mutable_local_size()->set_x(4);
  specialization.mutable_local_size()->set_y(2);
  specialization.mutable_local_size()->set_z(2);
  const KernelHandle kernel = Kernel(kIndices, specialization);
  constexpr uint32_t kX = 8, kY = 6, kZ = 4;
  const uint64_t bytes = uint64_t{kX} * kY * kZ * 4;
  const MemoryHandle out = Memory(bytes);
  const KernelArgument argument = BufferOf(out, bytes);
  // The second local size was not asked for: its pipeline is made at the launch, and counted.
  for (const Extent local : {Extent{4, 2, 2}, Extent{2, 3, 1}}) {
    const uint32_t zero = 0;
    KCACHE_ASSERT_OK(context_->Fill(queue_, out, 0, bytes,
                                    {reinterpret_cast<const char*>(&zero), sizeof(zero)}));
    KCACHE_ASSERT_OK(context_->Launch(
        queue_,
        Command(kernel, {kX / local.x, kY / local.y, kZ / local.z}, local, {&argument, 1})));
    const std::vector<uint32_t> data = Contents<uint32_t>(out, kX * kY * kZ);
    for (uint32_t z = 0; z < kZ; ++z) {
      for (uint32_t y = 0; y < kY; ++y) {
        for (uint32_t x = 0; x < kX; ++x) {
          ASSERT_EQ(data[(z * kY + y) * kX + x], 1000 * z + 100 * y + x);
        }
      }
    }
  }
  EXPECT_EQ(context_->late_compiles(), 1u);
}

// Only x can be chosen: the lease's local size sets it, and launches have to keep to that.
TEST_F(ContextTest, LocalSizeThatIsPartlyFree) {
  v1::Specialization specialization;
  specialization.mutable_local_size()->set_x(16);
  v1::KernelInfo info;
  const KernelHandle kernel = Kernel(R"(#version 450
layout(local_size_x_id = 4, local_size_y = 2) in;
layout(binding = 0) buffer Out { uint data[]; };
void main() { data[gl_LocalInvocationIndex] = gl_WorkGroupSize.x * 10 + gl_WorkGroupSize.y; }
)",
                                     specialization, &info);
  EXPECT_EQ(info.required_local_size().x(), 16u);
  EXPECT_EQ(info.required_local_size().y(), 2u);
  const MemoryHandle out = Memory(32 * 4);
  const KernelArgument argument = BufferOf(out, 32 * 4);
  KCACHE_ASSERT_OK(
      context_->Launch(queue_, Command(kernel, {1, 1, 1}, {16, 2, 1}, {&argument, 1})));
  EXPECT_THAT(Contents<uint32_t>(out, 32), testing::Each(162u));
  EXPECT_EQ(
      ReasonOf(context_->Launch(queue_, Command(kernel, {1, 1, 1}, {8, 2, 1}, {&argument, 1}))),
      v1::INVALID_LAUNCH);
}

TEST_F(ContextTest, SpecializationConstants) {
  v1::Specialization specialization;
  const uint32_t factor = 5, negate = 1, ignored = 3;
  for (const auto& [id, value] :
       {std::pair(7u, factor), std::pair(9u, negate), std::pair(1234u, ignored)}) {
    v1::SpecializationConstant* constant = specialization.add_constants();
    constant->set_id(id);
    constant->set_value(&value, sizeof(value));
  }
  const MemoryHandle memory = Memory(32 * 4);
  std::vector<int32_t> values(32);
  std::iota(values.begin(), values.end(), 1);
  KCACHE_ASSERT_OK(context_->Write(queue_, memory, 0, BytesOf(values)));
  const KernelArgument argument = BufferOf(memory, 32 * 4);
  KCACHE_ASSERT_OK(context_->Launch(queue_, Command(Kernel(kSpecialized, specialization), {1, 1, 1},
                                                    {32, 1, 1}, {&argument, 1})));
  KCACHE_ASSERT_OK(context_->Launch(
      queue_, Command(Kernel(kSpecialized), {1, 1, 1}, {32, 1, 1}, {&argument, 1})));
  const std::vector<int32_t> result = Contents<int32_t>(memory, 32);
  for (int i = 0; i < 32; ++i) EXPECT_EQ(result[i], -5 * (i + 1) * 2);
}

TEST_F(ContextTest, TooShortSpecializationConstantIsRefused) {
  v1::Specialization specialization;
  v1::SpecializationConstant* constant = specialization.add_constants();
  constant->set_id(7);
  constant->set_value("ab");
  auto artifact = compiler_->Compile(GlslRequest(kSpecialized));
  ASSERT_TRUE(artifact.ok());
  auto module = context_->LoadModule(*artifact, nullptr);
  ASSERT_TRUE(module.ok());
  v1::KernelInfo info = artifact->kernels(0);
  EXPECT_EQ(ReasonOf(context_->ResolveKernel(*module, specialization, &info, nullptr).status()),
            v1::INVALID_ARGUMENTS);
  info.set_entry("other");
  EXPECT_EQ(ReasonOf(context_->ResolveKernel(*module, {}, &info, nullptr).status()),
            v1::UNKNOWN_ENTRY);
}

// A long chain in which every launch needs the one before, across many submissions.
TEST_F(ContextTest, DependentLaunchesRunInOrder) {
  const KernelHandle kernel = Kernel(kIncrement);
  const MemoryHandle memory = Memory(64 * 4);
  const uint32_t start = 10;
  KCACHE_ASSERT_OK(context_->Fill(queue_, memory, 0, 64 * 4,
                                  {reinterpret_cast<const char*>(&start), sizeof(start)}));
  const KernelArgument argument = BufferOf(memory, 64 * 4);
  LaunchCommand command = Command(kernel, {1, 1, 1}, {64, 1, 1}, {&argument, 1});
  for (int i = 0; i < 300; ++i) KCACHE_ASSERT_OK(context_->Launch(queue_, command));
  command.repeat = 700;
  KCACHE_ASSERT_OK(context_->Launch(queue_, command));
  EXPECT_THAT(Contents<uint32_t>(memory, 64), testing::Each(1010u));
}

// Reads are snapshots at their place in the queue, whatever is enqueued behind them.
TEST_F(ContextTest, ReadsAreOrderedWithWhatFollows) {
  const KernelHandle kernel = Kernel(kIncrement);
  const MemoryHandle memory = Memory(64 * 4);
  const uint32_t zero = 0;
  KCACHE_ASSERT_OK(context_->Fill(queue_, memory, 0, 64 * 4,
                                  {reinterpret_cast<const char*>(&zero), sizeof(zero)}));
  const KernelArgument argument = BufferOf(memory, 64 * 4);
  std::vector<uint32_t> snapshots(200);
  for (uint32_t& snapshot : snapshots) {
    KCACHE_ASSERT_OK(
        context_->Read(queue_, memory, 4, {reinterpret_cast<char*>(&snapshot), sizeof(snapshot)}));
    KCACHE_ASSERT_OK(
        context_->Launch(queue_, Command(kernel, {1, 1, 1}, {64, 1, 1}, {&argument, 1})));
  }
  KCACHE_ASSERT_OK(Finish(queue_));
  for (uint32_t i = 0; i < snapshots.size(); ++i) EXPECT_EQ(snapshots[i], i);
}

// Random writes, fills, copies and reads of any alignment against a model in host memory.
TEST_F(ContextTest, TransfersOfEveryAlignment) {
  constexpr uint64_t kBytes = 5003;
  const MemoryHandle memory[2] = {Memory(kBytes), Memory(kBytes)};
  std::string model[2] = {std::string(kBytes, '\0'), std::string(kBytes, '\0')};
  const char zero = 0;
  for (MemoryHandle one : memory) {
    KCACHE_ASSERT_OK(context_->Fill(queue_, one, 0, kBytes, {&zero, 1}));
  }
  std::mt19937 random(7);
  std::vector<std::pair<std::string, std::string>> reads;  // (expected, got)
  reads.reserve(300);
  for (int round = 0; round < 1200; ++round) {
    const size_t which = random() % 2;
    const uint64_t offset = random() % kBytes;
    const uint64_t bytes = random() % std::min<uint64_t>(kBytes - offset, 1 + random() % 3000) + 1;
    switch (random() % 4) {
      case 0: {
        std::string data(bytes, '\0');
        for (char& byte : data) byte = static_cast<char>(random());
        KCACHE_ASSERT_OK(context_->Write(queue_, memory[which], offset, data));
        model[which].replace(offset, bytes, data);
        // `data` has to stay valid until a marker, and it ends here.
        KCACHE_ASSERT_OK(Finish(queue_));
        break;
      }
      case 1: {
        std::string pattern(size_t{1} << random() % 5, '\0');
        for (char& byte : pattern) byte = static_cast<char>(random());
        const uint64_t whole = bytes / pattern.size() * pattern.size();
        KCACHE_ASSERT_OK(context_->Fill(queue_, memory[which], offset, whole, pattern));
        for (uint64_t i = 0; i < whole; ++i) model[which][offset + i] = pattern[i % pattern.size()];
        break;
      }
      case 2: {
        const uint64_t to = random() % (kBytes - bytes + 1);
        KCACHE_ASSERT_OK(
            context_->Copy(queue_, memory[which], offset, memory[1 - which], to, bytes));
        model[1 - which].replace(to, bytes, model[which], offset, bytes);
        break;
      }
      default:
        if (reads.size() == reads.capacity()) break;
        reads.emplace_back(model[which].substr(offset, bytes), std::string(bytes, '\1'));
        KCACHE_ASSERT_OK(context_->Read(queue_, memory[which], offset, reads.back().second));
        break;
    }
  }
  KCACHE_ASSERT_OK(Finish(queue_));
  for (size_t i = 0; i < reads.size(); ++i) ASSERT_EQ(reads[i].first, reads[i].second) << i;
  for (size_t which : {0, 1}) {
    const std::vector<char> contents = Contents<char>(memory[which], kBytes);
    EXPECT_EQ(std::string(contents.begin(), contents.end()), model[which]);
  }
}

TEST_F(ContextTest, LargeTransfersGoInPieces) {
  constexpr uint64_t kBytes = (40 << 20) + 13;
  const MemoryHandle memory = Memory(kBytes), other = Memory(kBytes);
  std::string data(kBytes, '\0');
  for (uint64_t i = 0; i < kBytes; ++i) data[i] = static_cast<char>(i * 2654435761u >> 13);
  KCACHE_ASSERT_OK(context_->Write(queue_, memory, 0, data));
  KCACHE_ASSERT_OK(context_->Copy(queue_, memory, 0, other, 0, kBytes));
  std::string back(kBytes, '\0');
  KCACHE_ASSERT_OK(context_->Read(queue_, other, 0, back));
  KCACHE_ASSERT_OK(Finish(queue_));
  EXPECT_TRUE(back == data);
  const std::string pattern = "0123456789abcdef";
  KCACHE_ASSERT_OK(context_->Fill(queue_, other, 13, kBytes - 13, pattern));
  KCACHE_ASSERT_OK(context_->Read(queue_, other, 0, back));
  KCACHE_ASSERT_OK(Finish(queue_));
  EXPECT_EQ(back.substr(0, 13), data.substr(0, 13));
  for (uint64_t i = 13; i < kBytes; ++i) {
    if (back[i] != pattern[(i - 13) % 16]) FAIL() << "byte " << i;
  }
}

TEST_F(ContextTest, OverlappingCopyIsRefused) {
  const MemoryHandle memory = Memory(100);
  EXPECT_EQ(ReasonOf(context_->Copy(queue_, memory, 0, memory, 10, 20)), v1::BAD_REQUEST);
  KCACHE_ASSERT_OK(context_->Copy(queue_, memory, 0, memory, 20, 20));
  EXPECT_EQ(ReasonOf(context_->Copy(queue_, memory, 90, memory, 0, 11)), v1::BUFFER_OUT_OF_RANGE);
  KCACHE_ASSERT_OK(Finish(queue_));
}

TEST_F(ContextTest, QueuesRunSideBySide) {
  const KernelHandle kernel = Kernel(kIncrement);
  constexpr int kQueues = 4, kLaunches = 200;
  std::vector<QueueHandle> queues;
  std::vector<MemoryHandle> memory;
  for (int i = 0; i < kQueues; ++i) {
    auto queue = context_->CreateQueue();
    ASSERT_TRUE(queue.ok());
    queues.push_back(*queue);
    memory.push_back(Memory(64 * 4));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kQueues; ++i) {
    threads.emplace_back([&, i] {
      const uint32_t start = static_cast<uint32_t>(i);
      const KernelArgument argument = BufferOf(memory[i], 64 * 4);
      EXPECT_TRUE(context_
                      ->Fill(queues[i], memory[i], 0, 64 * 4,
                             {reinterpret_cast<const char*>(&start), sizeof(start)})
                      .ok());
      for (int n = 0; n < kLaunches; ++n) {
        EXPECT_TRUE(
            context_->Launch(queues[i], Command(kernel, {1, 1, 1}, {64, 1, 1}, {&argument, 1}))
                .ok());
        if (n % 50 == 0) {
          EXPECT_TRUE(context_->Flush(queues[i]).ok());
        }
      }
      std::vector<uint32_t> values(64);
      EXPECT_TRUE(
          context_->Read(queues[i], memory[i], 0, {reinterpret_cast<char*>(values.data()), 64 * 4})
              .ok());
      // Two markers waited for at once: each must see the read that was before it.
      auto first = context_->RecordMarker(queues[i]);
      auto second = context_->RecordMarker(queues[i]);
      ASSERT_TRUE(first.ok() && second.ok());
      std::thread waiter([&] { EXPECT_TRUE(context_->WaitMarker(*second).ok()); });
      EXPECT_TRUE(context_->WaitMarker(*first).ok());
      EXPECT_THAT(values, testing::Each(start + kLaunches));
      waiter.join();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (QueueHandle queue : queues) KCACHE_ASSERT_OK(context_->DestroyQueue(queue));
}

TEST_F(ContextTest, OutOfMemoryIsAnErrorAndTheContextLives) {
  const uint64_t all = context_->device().limits().memory_bytes();
  for (const uint64_t bytes : {all + 1, all * 4, UINT64_MAX}) {
    const auto memory = context_->Allocate(bytes, MemoryKind::kDevice);
    EXPECT_EQ(ReasonOf(memory.status()), v1::OUT_OF_DEVICE_MEMORY) << bytes;
  }
  // Together too much, each alone would do: nothing is touched, so nothing is really used.
  std::vector<MemoryHandle> held;
  absl::Status failure;
  for (int i = 0; i < 8 && failure.ok(); ++i) {
    auto memory = context_->Allocate(all / 4, MemoryKind::kDevice);
    if (memory.ok()) {
      held.push_back(*memory);
    } else {
      failure = memory.status();
    }
  }
  EXPECT_EQ(ReasonOf(failure), v1::OUT_OF_DEVICE_MEMORY);
  EXPECT_GE(held.size(), 2u);
  for (MemoryHandle memory : held) KCACHE_ASSERT_OK(context_->Free(memory));
  auto again = context_->Allocate(all / 4, MemoryKind::kHostVisible);
  EXPECT_TRUE(again.ok()) << again.status();
}

TEST_F(ContextTest, BuffersBeyondTheStorageRangeAreNamed) {
  const auto device = FindPhysicalDevice(**Instance::Create({}), 0);
  ASSERT_TRUE(device.ok());
  const uint64_t range = device->limits().maxStorageBufferRange;
  const uint64_t bytes = range + 64;
  if (bytes > context_->device().limits().max_allocation_bytes()) {
    GTEST_SKIP() << "no allocation of this device is beyond maxStorageBufferRange " << range;
  }
  const KernelHandle kernel = Kernel(kIncrement);
  const MemoryHandle memory = Memory(bytes);
  KernelArgument argument = BufferOf(memory, bytes);
  const absl::Status refused =
      context_->Launch(queue_, Command(kernel, {1, 1, 1}, {64, 1, 1}, {&argument, 1}));
  EXPECT_EQ(ReasonOf(refused), v1::INVALID_ARGUMENTS);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("maxStorageBufferRange"));
  argument.offset = 3;
  argument.bytes = 64;
  EXPECT_THAT(
      std::string(context_->Launch(queue_, Command(kernel, {1, 1, 1}, {64, 1, 1}, {&argument, 1}))
                      .message()),
      HasSubstr("minStorageBufferOffsetAlignment"));
}

// What is released while commands that use it are on their way lives until they are done.
TEST_F(ContextTest, ReleasedObjectsOutliveTheirCommands) {
  auto artifact = compiler_->Compile(GlslRequest(kIncrement));
  ASSERT_TRUE(artifact.ok());
  for (int round = 0; round < 50; ++round) {
    auto module = context_->LoadModule(*artifact, nullptr);
    ASSERT_TRUE(module.ok());
    v1::KernelInfo info = artifact->kernels(0);
    auto kernel = context_->ResolveKernel(*module, {}, &info, nullptr);
    ASSERT_TRUE(kernel.ok());
    const MemoryHandle memory = Memory(64 * 4);
    const KernelArgument argument = BufferOf(memory, 64 * 4);
    KCACHE_ASSERT_OK(
        context_->Launch(queue_, Command(*kernel, {1, 1, 1}, {64, 1, 1}, {&argument, 1})));
    KCACHE_ASSERT_OK(context_->Free(memory));
    KCACHE_ASSERT_OK(context_->ReleaseKernel(*kernel));
    KCACHE_ASSERT_OK(context_->UnloadModule(*module));
    EXPECT_FALSE(context_->Free(memory).ok());
  }
  KCACHE_ASSERT_OK(Finish(queue_));
}

// Close with everything still there: the layer would name whatever is left when the device goes.
TEST_F(ContextTest, CloseReleasesWhatIsLeft) {
  const KernelHandle kernel = Kernel(kIncrement);
  const MemoryHandle memory = Memory(64 * 4);
  const KernelArgument argument = BufferOf(memory, 64 * 4);
  KCACHE_ASSERT_OK(
      context_->Launch(queue_, Command(kernel, {1, 1, 1}, {64, 1, 1}, {&argument, 1})));
  KCACHE_ASSERT_OK(context_->Flush(queue_));
  ASSERT_TRUE(context_->RecordMarker(queue_).ok());
  KCACHE_ASSERT_OK(context_->Close());
  KCACHE_ASSERT_OK(context_->Close());
}

TEST_F(ContextTest, ForeignFormatsAndGarbageAreRefused) {
  v1::Artifact artifact;
  artifact.set_format("cubin");
  EXPECT_EQ(ReasonOf(context_->LoadModule(artifact, nullptr).status()), v1::BAD_REQUEST);
  artifact.set_format("spirv");
  artifact.set_binary("garbage");
  EXPECT_EQ(ReasonOf(context_->LoadModule(artifact, nullptr).status()), v1::BAD_REQUEST);
}

}  // namespace
}  // namespace kcache::backend::vulkan
