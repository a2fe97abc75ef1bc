#include "backends/cudalike/device_suite.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <thread>
#include <utility>

#include "contract/error_reason.h"

namespace kcache::backend::cudalike {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr char kSource[] = R"(
struct Pair { int a; double b; };
extern "C" __global__ void affine(float* out, const float* in, Pair p, int n, char c) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * p.a + static_cast<float>(p.b) + c;
}
extern "C" __global__ void where(unsigned* out) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}
extern "C" __global__ void reverse(unsigned* data, unsigned n) {
  extern __shared__ unsigned tile[];
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) tile[n - 1 - i] = data[i];
  __syncthreads();
  for (unsigned i = threadIdx.x; i < n; i += blockDim.x) data[i] = tile[i];
}
extern "C" __global__ void add(unsigned* data, unsigned n) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) data[i] += 1;
}
// Waits until somebody sets flag[0], or for about four seconds. flag[1] says which.
extern "C" __global__ void await(volatile unsigned* flag) {
  const long long start = clock64();
  while (flag[0] == 0 && clock64() - start < 8000000000LL) {
  }
  flag[1] = flag[0] == 0 ? 2 : 1;
}
extern "C" __global__ void set(volatile unsigned* flag) { flag[0] = 1; }
extern "C" __global__ void wild(unsigned* data) { data[1ull << 40] = 1; }
extern "C" __global__ void nothing() {}
template <typename T> __global__ void twice(T* data) { data[threadIdx.x] *= 2; }
)";

template <typename T>
std::string_view Bytes(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}
template <typename T>
std::string_view AllBytes(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}
template <typename T>
std::vector<T> Values(const std::string& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

KernelArgument BufferArgument(MemoryHandle memory, uint64_t offset = 0) {
  KernelArgument argument;
  argument.kind = KernelArgument::Kind::kBuffer;
  argument.memory = memory;
  argument.offset = offset;
  return argument;
}
template <typename T>
KernelArgument ScalarArgument(const T& value) {
  KernelArgument argument;
  argument.scalar = Bytes(value);
  return argument;
}

std::string Noise(size_t bytes) {
  std::string noise(bytes, '\0');
  uint32_t state = 1;
  for (char& c : noise) c = static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  return noise;
}

struct Pair {
  int a;
  double b;
};

}  // namespace

void DeviceSuite::SetUp() {
  // A child of a death test has no state of its parent's driver to inherit.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  family_ = GetParam().make_family();
  ContextOptions options;
  const size_t slash = GetParam().framework.find('/');
  if (slash != std::string::npos) options.variant = GetParam().framework.substr(slash + 1);
  absl::StatusOr<std::unique_ptr<Context>> context = family_->OpenContext(options);
  if (!context.ok()) GTEST_SKIP() << context.status().message();
  context_ = *std::move(context);
  absl::StatusOr<QueueHandle> queue = context_->CreateQueue();
  ASSERT_TRUE(queue.ok()) << queue.status();
  queue_ = *queue;
}

void DeviceSuite::TearDown() {
  if (context_ == nullptr) return;
  const absl::Status closed = context_->Close();
  EXPECT_TRUE(closed.ok()) << closed;
}

v1::Artifact DeviceSuite::Compile(const std::string& source,
                                  const std::vector<std::string>& expressions) {
  v1::CompileRequest request;
  request.set_framework(GetParam().framework);
  request.set_architecture(context_->device().architecture());
  request.mutable_manifest()->set_language(GetParam().language);
  for (const std::string& expression : expressions) {
    request.mutable_manifest()->add_name_expressions(expression);
  }
  request.set_source(source);
  auto compiler = family_->MakeCompiler();
  EXPECT_TRUE(compiler.ok()) << compiler.status();
  absl::StatusOr<v1::Artifact> artifact = (*compiler)->Compile(request);
  EXPECT_TRUE(artifact.ok()) << artifact.status();
  return artifact.ok() ? *std::move(artifact) : v1::Artifact();
}

KernelHandle DeviceSuite::Resolve(ModuleHandle module, const v1::Artifact& artifact,
                                  const std::string& entry, v1::KernelInfo* info) {
  v1::KernelInfo own;
  if (info == nullptr) info = &own;
  for (const v1::KernelInfo& kernel : artifact.kernels()) {
    if (kernel.entry() == entry) *info = kernel;
  }
  EXPECT_EQ(info->entry(), entry);
  const auto kernel = context_->ResolveKernel(module, {}, info, &statistics_);
  EXPECT_TRUE(kernel.ok()) << kernel.status();
  return kernel.ok() ? *kernel : 0;
}

KernelHandle DeviceSuite::Kernel(const std::string& source, const std::string& entry) {
  const v1::Artifact artifact = Compile(source);
  const auto module = context_->LoadModule(artifact, &statistics_);
  EXPECT_TRUE(module.ok()) << module.status();
  return module.ok() ? Resolve(*module, artifact, entry) : 0;
}

MemoryHandle DeviceSuite::Buffer(uint64_t bytes, MemoryKind kind) {
  const auto memory = context_->Allocate(bytes, kind);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return memory.ok() ? *memory : 0;
}

void DeviceSuite::Write(MemoryHandle memory, std::string_view data, uint64_t offset) {
  const absl::Status written = context_->Write(queue_, memory, offset, data);
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_TRUE(Finish(queue_).ok());
}

std::string DeviceSuite::Read(MemoryHandle memory, uint64_t bytes, uint64_t offset) {
  std::string data(bytes, '?');
  const absl::Status read = context_->Read(queue_, memory, offset, data);
  EXPECT_TRUE(read.ok()) << read;
  const absl::Status finished = Finish(queue_);
  EXPECT_TRUE(finished.ok()) << finished;
  return data;
}

absl::Status DeviceSuite::Finish(QueueHandle queue) {
  const auto marker = context_->RecordMarker(queue);
  if (!marker.ok()) return marker.status();
  return context_->WaitMarker(*marker);
}

absl::Status DeviceSuite::Launch(QueueHandle queue, KernelHandle kernel, Extent grid, Extent block,
                                 const std::vector<KernelArgument>& arguments,
                                 uint32_t dynamic_bytes, uint32_t repeat) {
  LaunchCommand command;
  command.kernel = kernel;
  command.grid = grid;
  command.local = block;
  command.arguments = arguments;
  command.dynamic_local_bytes = dynamic_bytes;
  command.repeat = repeat;
  return context_->Launch(queue, command);
}

TEST_P(DeviceSuite, TheDeviceIsDescribed) {
  const v1::DeviceInfo& device = context_->device();
  std::cout << device.ShortDebugString() << "\n";
  EXPECT_NE(device.name(), "");
  EXPECT_NE(device.architecture(), "");
  EXPECT_EQ(device.pci_address().size(), 12U);
  EXPECT_GT(device.limits().memory_bytes(), 0U);
  EXPECT_GE(device.limits().max_local_size(), 256U);
}

TEST_P(DeviceSuite, ArgumentsOfEveryKindAndTheReflection) {
  const v1::Artifact artifact = Compile(kSource);
  const auto module = context_->LoadModule(artifact, &statistics_);
  ASSERT_TRUE(module.ok()) << module.status();
  v1::KernelInfo info;
  const KernelHandle kernel = Resolve(*module, artifact, "affine", &info);
  EXPECT_TRUE(info.arguments_known());
  ASSERT_EQ(info.arguments_size(), 5);
  EXPECT_EQ(info.arguments(2).bytes(), 16U);
  EXPECT_EQ(info.arguments(4).bytes(), 1U);
  EXPECT_GT(info.registers(), 0U);
  EXPECT_GT(info.max_local_size(), 0U);
  constexpr int kCount = 1000;
  std::vector<float> in(kCount);
  for (int i = 0; i < kCount; ++i) in[i] = static_cast<float>(i);
  const MemoryHandle source = Buffer(kCount * 4 + 4);
  const MemoryHandle target = Buffer(kCount * 4);
  Write(source, AllBytes(in), 4);
  const Pair pair = {3, 0.5};
  const int count = kCount;
  const char c = 7;
  const absl::Status launched =
      Launch(queue_, kernel, {8, 1, 1}, {128, 1, 1},
             {BufferArgument(target), BufferArgument(source, 4), ScalarArgument(pair),
              ScalarArgument(count), ScalarArgument(c)});
  ASSERT_TRUE(launched.ok()) << launched;
  const std::vector<float> out = Values<float>(Read(target, kCount * 4));
  for (int i = 0; i < kCount; ++i) ASSERT_EQ(out[i], in[i] * 3 + 0.5F + 7) << i;
  EXPECT_EQ(ReasonOf(Launch(queue_, kernel, {}, {}, {BufferArgument(target)})),
            v1::INVALID_ARGUMENTS);
}

TEST_P(DeviceSuite, OneToThreeDimensions) {
  const KernelHandle kernel = Kernel(kSource, "where");
  for (const auto& [grid, block] : std::vector<std::pair<Extent, Extent>>{
           {{5, 1, 1}, {33, 1, 1}}, {{3, 4, 1}, {8, 5, 1}}, {{2, 3, 4}, {4, 3, 2}}}) {
    const size_t blocks = grid.x * grid.y * grid.z;
    const size_t threads = block.x * block.y * block.z;
    const MemoryHandle out = Buffer(blocks * threads * 4);
    ASSERT_TRUE(Launch(queue_, kernel, grid, block, {BufferArgument(out)}).ok());
    const std::vector<uint32_t> values = Values<uint32_t>(Read(out, blocks * threads * 4));
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(values[i], i / threads * 1000 + i % threads) << i;
    }
    EXPECT_TRUE(context_->Free(out).ok());
  }
}

TEST_P(DeviceSuite, TemplatesByNameExpression) {
  const v1::Artifact artifact = Compile(kSource, {"twice<double>", "twice<short>"});
  const auto module = context_->LoadModule(artifact, &statistics_);
  ASSERT_TRUE(module.ok());
  const MemoryHandle data = Buffer(32);
  Write(data, AllBytes(std::vector<double>{1, 2, 3, 4}));
  const KernelHandle kernel = Resolve(*module, artifact, "twice<double>");
  ASSERT_TRUE(Launch(queue_, kernel, {1, 1, 1}, {4, 1, 1}, {BufferArgument(data)}).ok());
  EXPECT_THAT(Values<double>(Read(data, 32)), testing::ElementsAre(2, 4, 6, 8));
}

TEST_P(DeviceSuite, DynamicSharedMemoryOfAHundredKilobytes) {
  const KernelHandle kernel = Kernel(kSource, "reverse");
  const uint32_t count = 100 * 1024 / 4;
  if (context_->device().limits().local_memory_bytes() < count * 4) {
    GTEST_SKIP() << "a block has " << context_->device().limits().local_memory_bytes() << " bytes";
  }
  std::vector<uint32_t> values(count);
  for (uint32_t i = 0; i < count; ++i) values[i] = i;
  const MemoryHandle data = Buffer(count * 4);
  Write(data, AllBytes(values));
  const absl::Status launched = Launch(queue_, kernel, {1, 1, 1}, {256, 1, 1},
                                       {BufferArgument(data), ScalarArgument(count)}, count * 4);
  ASSERT_TRUE(launched.ok()) << launched;
  const std::vector<uint32_t> out = Values<uint32_t>(Read(data, count * 4));
  for (uint32_t i = 0; i < count; ++i) ASSERT_EQ(out[i], count - 1 - i);
}

TEST_P(DeviceSuite, AnImpossibleLaunchIsAnErrorAndTheContextLives) {
  const KernelHandle kernel = Kernel(kSource, "nothing");
  EXPECT_EQ(ReasonOf(Launch(queue_, kernel, {1, 1, 1}, {4096, 1, 1}, {})), v1::INVALID_LAUNCH);
  EXPECT_EQ(ReasonOf(Launch(queue_, kernel, {1, 1, 1}, {1, 1, 1}, {}, 1U << 30)),
            v1::INVALID_LAUNCH);
  EXPECT_EQ(ReasonOf(Launch(queue_, kernel, {1, 1U << 20, 1}, {1, 1, 1}, {})), v1::INVALID_LAUNCH);
  EXPECT_TRUE(Launch(queue_, kernel, {1, 1, 1}, {1, 1, 1}, {}).ok());
  EXPECT_TRUE(Finish(queue_).ok());
}

TEST_P(DeviceSuite, AQueueIsInOrderAndRepeatsRepeat) {
  const KernelHandle kernel = Kernel(kSource, "add");
  constexpr uint32_t kCount = 100000;
  const MemoryHandle data = Buffer(kCount * 4);
  ASSERT_TRUE(context_->Fill(queue_, data, 0, kCount * 4, std::string(4, '\0')).ok());
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(Launch(queue_, kernel, {(kCount + 255) / 256, 1, 1}, {256, 1, 1},
                       {BufferArgument(data), ScalarArgument(kCount)}, 0, 20)
                    .ok());
  }
  const std::vector<uint32_t> values = Values<uint32_t>(Read(data, kCount * 4));
  EXPECT_EQ(std::count(values.begin(), values.end(), 1000U), kCount);
}

TEST_P(DeviceSuite, QueuesOverlapAndNothingBlocksTheCaller) {
  const v1::Artifact artifact = Compile(kSource);
  const auto module = context_->LoadModule(artifact, &statistics_);
  ASSERT_TRUE(module.ok());
  const KernelHandle await = Resolve(*module, artifact, "await");
  const KernelHandle set = Resolve(*module, artifact, "set");
  const QueueHandle other = *context_->CreateQueue();
  const MemoryHandle flag = Buffer(8);
  const MemoryHandle data = Buffer(1 << 20);
  ASSERT_TRUE(context_->Fill(queue_, flag, 0, 8, std::string(4, '\0')).ok());
  ASSERT_TRUE(Finish(queue_).ok());
  ASSERT_TRUE(Launch(queue_, await, {1, 1, 1}, {1, 1, 1}, {BufferArgument(flag)}).ok());
  // All of these wait on the device behind the kernel, and none of them here.
  const std::string noise = Noise(1 << 20);
  std::string back(noise.size(), '?');
  ASSERT_TRUE(context_->Write(queue_, data, 0, noise).ok());
  ASSERT_TRUE(context_->Read(queue_, data, 0, back).ok());
  const auto marker = context_->RecordMarker(queue_);
  ASSERT_TRUE(marker.ok());
  ASSERT_TRUE(Launch(other, set, {1, 1, 1}, {1, 1, 1}, {BufferArgument(flag)}).ok());
  EXPECT_TRUE(Finish(other).ok());
  EXPECT_TRUE(context_->WaitMarker(*marker).ok());
  EXPECT_EQ(back, noise);
  EXPECT_EQ(Values<uint32_t>(Read(flag, 8))[1], 1U) << "the waiting kernel gave up";
  EXPECT_TRUE(context_->DestroyQueue(other).ok());
}

TEST_P(DeviceSuite, CopiesOfEverySizeAtEveryOffset) {
  for (const MemoryKind kind : {MemoryKind::kDevice, MemoryKind::kHostVisible}) {
    for (const size_t bytes : {1, 3, 4095, 65537, 1 << 20, (40 << 20) + 13}) {
      const std::string noise = Noise(bytes);
      const MemoryHandle one = Buffer(bytes + 7, kind);
      const MemoryHandle two = Buffer(bytes + 5);
      Write(one, noise, 7);
      ASSERT_TRUE(context_->Copy(queue_, one, 7, two, 5, bytes).ok());
      EXPECT_EQ(Read(two, bytes, 5), noise) << bytes;
      EXPECT_TRUE(context_->Free(one).ok());
      EXPECT_TRUE(context_->Free(two).ok());
    }
  }
}

TEST_P(DeviceSuite, FillsOfEveryPatternAtEveryOffset) {
  const MemoryHandle memory = Buffer(1 << 20);
  for (const std::string pattern : {"a", "ab", "abcd", "abcdefgh", "abcdefghijklmnop"}) {
    for (const uint64_t offset : {0, 1, 2, 4, 16}) {
      const uint64_t bytes = 9000 * pattern.size();
      ASSERT_TRUE(context_->Fill(queue_, memory, offset, bytes, pattern).ok());
      std::string expected;
      while (expected.size() < bytes) expected += pattern;
      EXPECT_EQ(Read(memory, bytes, offset), expected) << pattern << " at " << offset;
    }
  }
}

TEST_P(DeviceSuite, OutOfMemoryIsAnErrorAndNotADeath) {
  const uint64_t all = context_->device().limits().memory_bytes();
  EXPECT_EQ(ReasonOf(context_->Allocate(all * 2, MemoryKind::kDevice).status()),
            v1::OUT_OF_DEVICE_MEMORY);
  const MemoryHandle memory = Buffer(16);
  Write(memory, "still alive here");
  EXPECT_EQ(Read(memory, 16), "still alive here");
}

TEST_P(DeviceSuite, HostVisibleMemoryIsSeenByKernels) {
  const KernelHandle kernel = Kernel(kSource, "add");
  const MemoryHandle memory = Buffer(16, MemoryKind::kHostVisible);
  Write(memory, AllBytes(std::vector<uint32_t>{1, 2, 3, 4}));
  const uint32_t count = 4;
  ASSERT_TRUE(
      Launch(queue_, kernel, {1, 1, 1}, {32, 1, 1}, {BufferArgument(memory), ScalarArgument(count)})
          .ok());
  EXPECT_THAT(Values<uint32_t>(Read(memory, 16)), testing::ElementsAre(2, 3, 4, 5));
}

TEST_P(DeviceSuite, WhatTheDriverCompilesAtLoadIsCounted) {
  const v1::Artifact artifact = Compile(kSource);
  ASSERT_TRUE(context_->LoadModule(artifact, &statistics_).ok());
  if (artifact.format() == "ptx") {
    EXPECT_GT(statistics_.jit_microseconds, 0U);
  } else {
    EXPECT_EQ(statistics_.jit_microseconds, 0U);
  }
  std::cout << "jit " << statistics_.jit_microseconds << " us\n";
}

TEST_P(DeviceSuite, WhatCannotBeLoadedIsATypedError) {
  v1::Artifact artifact;
  artifact.set_format("ptx");
  artifact.set_binary(".version 9.0\n.target sm_90\n.address_size 64\n nonsense;\n");
  const absl::Status bad = context_->LoadModule(artifact, &statistics_).status();
  EXPECT_EQ(ReasonOf(bad), v1::COMPILE_FAILED) << bad;
  artifact.set_format("tarball");
  EXPECT_EQ(ReasonOf(context_->LoadModule(artifact, &statistics_).status()), v1::BAD_REQUEST);
  const v1::Artifact good = Compile(kSource);
  const auto module = context_->LoadModule(good, &statistics_);
  v1::KernelInfo info;
  info.set_entry("missing");
  EXPECT_EQ(ReasonOf(context_->ResolveKernel(*module, {}, &info, &statistics_).status()),
            v1::UNKNOWN_ENTRY);
  EXPECT_TRUE(context_->UnloadModule(*module).ok());
  EXPECT_TRUE(Finish(queue_).ok());
}

TEST_P(DeviceSuite, AFaultIsTypedAndEndsTheContext) {
  EXPECT_EXIT(
      {
        const KernelHandle wild = Kernel(kSource, "wild");
        const MemoryHandle data = Buffer(16);
        absl::Status status = Launch(queue_, wild, {1, 1, 1}, {1, 1, 1}, {BufferArgument(data)});
        if (status.ok()) status = Finish(queue_);
        std::cerr << status << "\n";
        const absl::Status next = context_->Allocate(16, MemoryKind::kDevice).status();
        std::cerr << next << "\n";
        const bool as_expected =
            ReasonOf(status) == v1::KERNEL_FAULT && ReasonOf(next) == v1::KERNEL_FAULT;
        _exit(as_expected ? 0 : 1);
      },
      testing::ExitedWithCode(0), "(ILLEGAL_ADDRESS|IllegalAddress)");
}

TEST_P(DeviceSuite, ThreadsWithQueuesOfTheirOwn) {
  const KernelHandle kernel = Kernel(kSource, "add");
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([this, kernel] {
      const QueueHandle queue = *context_->CreateQueue();
      const uint32_t count = 1000;
      for (uint32_t round = 1; round <= 50; ++round) {
        const MemoryHandle data = *context_->Allocate(count * 4, MemoryKind::kDevice);
        EXPECT_TRUE(context_->Fill(queue, data, 0, count * 4, Bytes(round)).ok());
        EXPECT_TRUE(Launch(queue, kernel, {4, 1, 1}, {256, 1, 1},
                           {BufferArgument(data), ScalarArgument(count)})
                        .ok());
        std::string bytes(count * 4, '?');
        EXPECT_TRUE(context_->Read(queue, data, 0, bytes).ok());
        EXPECT_TRUE(Finish(queue).ok());
        EXPECT_EQ(Values<uint32_t>(bytes), std::vector<uint32_t>(count, round + 1));
        EXPECT_TRUE(context_->Free(data).ok());
      }
      EXPECT_TRUE(context_->DestroyQueue(queue).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(DeviceSuite, AContextCanBeMadeAgain) {
  ASSERT_TRUE(context_->Close().ok());
  SetUp();
  const MemoryHandle memory = Buffer(4);
  Write(memory, "once");
  EXPECT_EQ(Read(memory, 4), "once");
}

// Figures for people; nothing is asserted about time.
TEST_P(DeviceSuite, Figures) {
  using Clock = std::chrono::steady_clock;
  const auto microseconds = [](Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  const v1::Artifact artifact = Compile(kSource);
  const auto start = Clock::now();
  const auto module = context_->LoadModule(artifact, &statistics_);
  const auto loaded = Clock::now();
  ASSERT_TRUE(module.ok());
  const KernelHandle kernel = Resolve(*module, artifact, "nothing");
  ASSERT_TRUE(Launch(queue_, kernel, {}, {}, {}).ok());
  ASSERT_TRUE(Finish(queue_).ok());
  std::vector<double> launch;
  std::vector<double> synchronized;
  for (int i = 0; i < 2000; ++i) {
    const auto before = Clock::now();
    ASSERT_TRUE(Launch(queue_, kernel, {}, {}, {}).ok());
    const auto after = Clock::now();
    ASSERT_TRUE(Finish(queue_).ok());
    launch.push_back(microseconds(after - before));
    synchronized.push_back(microseconds(Clock::now() - before));
  }
  std::sort(launch.begin(), launch.end());
  std::sort(synchronized.begin(), synchronized.end());
  std::cout << "load " << microseconds(loaded - start) << " us, launch p50 " << launch[1000]
            << " us, launch + wait p50 " << synchronized[1000] << " us p99 " << synchronized[1980]
            << " us\n";
}

}  // namespace kcache::backend::cudalike
