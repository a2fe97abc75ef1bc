// The device role on real data.

#include <numeric>
#include <thread>

#include "tests/unit/opencl/fixture.h"

namespace kcache::backend::opencl {
namespace {

class ContextTest : public OpenClTest {};

constexpr char kScale[] = R"(
  kernel void scale(global const float* in, global float* out, float factor) {
    out[get_global_id(0)] = in[get_global_id(0)] * factor;
  }
)";

TEST_F(ContextTest, OneArtifactRunsOnBothDevices) {
  const v1::Artifact artifact = MustCompile(Source(kScale));
  constexpr size_t kItems = 4096;
  std::vector<float> input(kItems);
  std::iota(input.begin(), input.end(), 0.0f);
  for (const uint32_t device : {0U, 1U}) {
    Host host = Open(artifact, device);
    const MemoryHandle in = host.Memory(kItems * 4);
    const MemoryHandle out = host.Memory(kItems * 4);
    host.Write(in, input);
    const float factor = 3.0f + static_cast<float>(device);
    const std::vector<KernelArgument> arguments{BufferArgument(in), BufferArgument(out),
                                                ScalarArgument(factor)};
    ASSERT_EQ(host.context->Launch(host.queue, LaunchOf(host.Kernel("scale"), {kItems / 64, 1, 1},
                                                        {64, 1, 1}, arguments)),
              absl::OkStatus());
    const std::vector<float> result = host.Read<float>(out, kItems);
    for (size_t i = 0; i < kItems; ++i) ASSERT_EQ(result[i], input[i] * factor) << "item " << i;
    EXPECT_EQ(host.context->late_compiles(), 0U);
    EXPECT_EQ(host.context->Close(), absl::OkStatus());
  }
}

TEST_F(ContextTest, AnArgumentThatChangesIsSetAgain) {
  Host host = Open(MustCompile(Source(kScale)));
  const KernelHandle kernel = host.Kernel("scale");
  const MemoryHandle in = host.Memory(256);
  const MemoryHandle first = host.Memory(256);
  const MemoryHandle second = host.Memory(256);
  host.Write(in, std::vector<float>(64, 1.0f));
  float factor = 2.0f;
  std::vector<KernelArgument> arguments{BufferArgument(in), BufferArgument(first),
                                        ScalarArgument(factor)};
  ASSERT_TRUE(
      host.context->Launch(host.queue, LaunchOf(kernel, {1, 1, 1}, {64, 1, 1}, arguments)).ok());
  factor = 5.0f;
  arguments[1] = BufferArgument(second);
  ASSERT_TRUE(
      host.context->Launch(host.queue, LaunchOf(kernel, {1, 1, 1}, {64, 1, 1}, arguments)).ok());
  EXPECT_EQ(host.Read<float>(first, 1)[0], 2.0f);
  EXPECT_EQ(host.Read<float>(second, 1)[0], 5.0f);
}

TEST_F(ContextTest, LocalMemoryThreeDimensionsAndOffset) {
  Host host = Open(MustCompile(Source(R"(
    kernel void reverse(global const int* in, global int* out, local int* tile) {
      const int i = get_local_id(0);
      tile[i] = in[get_global_id(0)];
      barrier(CLK_LOCAL_MEM_FENCE);
      out[get_global_id(0)] = tile[get_local_size(0) - 1 - i];
    }
    kernel void where(global int* out) {
      const int x = get_global_id(0) - get_global_offset(0), y = get_global_id(1) - get_global_offset(1),
                z = get_global_id(2) - get_global_offset(2);
      const int i = x + get_global_size(0) * (y + get_global_size(1) * z);
      out[i] = get_work_dim() * 1000000 + get_global_id(2) * 10000 + get_global_id(1) * 100 + get_global_id(0);
    }
  )")));
  const MemoryHandle in = host.Memory(512);
  const MemoryHandle out = host.Memory(512);
  std::vector<int> values(128);
  std::iota(values.begin(), values.end(), 0);
  host.Write(in, values);
  std::vector<KernelArgument> arguments{BufferArgument(in), BufferArgument(out),
                                        LocalArgument(64 * 4)};
  ASSERT_TRUE(
      host.context
          ->Launch(host.queue, LaunchOf(host.Kernel("reverse"), {2, 1, 1}, {64, 1, 1}, arguments))
          .ok());
  const std::vector<int> reversed = host.Read<int>(out, 128);
  EXPECT_EQ(reversed[0], 63);
  EXPECT_EQ(reversed[127], 64);

  arguments = {BufferArgument(out)};
  LaunchCommand command = LaunchOf(host.Kernel("where"), {2, 3, 2}, {2, 1, 2}, arguments);
  command.has_global_offset = true;
  command.global_offset = {7, 5, 3};
  ASSERT_TRUE(host.context->Launch(host.queue, command).ok());
  const std::vector<int> where = host.Read<int>(out, 48);
  EXPECT_EQ(where[0], 3030507);
  EXPECT_EQ(where[47], 3060710);
  // Neither an unfinished local size nor an offset comes finished.
  EXPECT_EQ(host.context->late_compiles(), 1U);
}

TEST_F(ContextTest, WhereTheDriverPicksAFinishedSizeIsTaken) {
  Host host = Open(MustCompile(
      Source("kernel void f(global int* a) { a[get_global_id(0)] = get_local_size(0); }")));
  const MemoryHandle memory = host.Memory(1024 * 4);
  const std::vector<KernelArgument> arguments{BufferArgument(memory)};
  LaunchCommand command = LaunchOf(host.Kernel("f"), {1024, 1, 1}, {1, 1, 1}, arguments);
  command.driver_picks_local = true;
  ASSERT_TRUE(host.context->Launch(host.queue, command).ok());
  EXPECT_EQ(host.Read<int>(memory, 1)[0], 64);
  EXPECT_EQ(host.context->late_compiles(), 0U);
  command.global = {1000, 1, 1};  // no finished size divides it
  ASSERT_TRUE(host.context->Launch(host.queue, command).ok());
  EXPECT_EQ(host.Finish(), absl::OkStatus());
  EXPECT_EQ(host.context->late_compiles(), 1U);
}

TEST_F(ContextTest, FlagsThatAreSettingsOfTheLaunchSurviveInTheArtifact) {
  for (const bool flush : {false, true}) {
    v1::CompileRequest request =
        Source("kernel void f(global float* a, float x) { a[0] = x + as_float(64); }");
    if (flush) request.mutable_manifest()->add_flags("-cl-denorms-are-zero");
    Host host = Open(MustCompile(request));
    const MemoryHandle memory = host.Memory(4);
    const float zero = 0.0F;
    const std::vector<KernelArgument> arguments{BufferArgument(memory), ScalarArgument(zero)};
    ASSERT_EQ(host.context->Launch(host.queue,
                                   LaunchOf(host.Kernel("f"), {1, 1, 1}, {64, 1, 1}, arguments)),
              absl::OkStatus());
    EXPECT_EQ(host.Read<uint32_t>(memory, 1)[0], flush ? 0U : 64U);
  }
}

TEST_F(ContextTest, RepeatEnqueuesTheLaunchAgain) {
  Host host = Open(MustCompile(Source("kernel void add(global int* a) { atomic_inc(a); }")));
  const MemoryHandle memory = host.Memory(4);
  host.Write(memory, std::vector<int>{0});
  const std::vector<KernelArgument> arguments{BufferArgument(memory)};
  LaunchCommand command = LaunchOf(host.Kernel("add"), {1, 1, 1}, {64, 1, 1}, arguments);
  command.repeat = 10;
  ASSERT_TRUE(host.context->Launch(host.queue, command).ok());
  EXPECT_EQ(host.Read<int>(memory, 1)[0], 640);
}

TEST_F(ContextTest, PartsOfBuffersCopiesAndFills) {
  Host host = Open(MustCompile(Source(kScale)));
  const MemoryHandle a = host.Memory(1024);
  const MemoryHandle b = host.Memory(1024);
  host.Write(a, std::vector<float>(256, 1.5f));
  const float factor = 2.0f;
  // Bytes 256 … 511 of `a`, through a sub-buffer.
  std::vector<KernelArgument> arguments{BufferArgument(a, 256, 256), BufferArgument(b, 512, 256),
                                        ScalarArgument(factor)};
  const KernelHandle scale = host.Kernel("scale");
  ASSERT_EQ(host.context->Launch(host.queue, LaunchOf(scale, {1, 1, 1}, {64, 1, 1}, arguments)),
            absl::OkStatus());
  EXPECT_EQ(host.Read<float>(b, 256)[128], 3.0f);
  EXPECT_EQ(host.Read<float>(b, 256)[191], 3.0f);
  const std::string pattern("\x01\x02\x03\x04", 4);
  ASSERT_EQ(host.context->Fill(host.queue, a, 0, 1024, pattern), absl::OkStatus());
  ASSERT_EQ(host.context->Fill(host.queue, a, 2, 8, pattern),
            absl::OkStatus());                                                 // not aligned to 4
  ASSERT_EQ(host.context->Copy(host.queue, a, 1, b, 3, 9), absl::OkStatus());  // odd everything
  const std::vector<char> filled = host.Read<char>(a, 16);
  EXPECT_EQ(std::string(filled.begin(), filled.end()),
            std::string("\1\2\1\2\3\4\1\2\3\4\3\4\1\2\3\4", 16));
  const std::vector<char> copied = host.Read<char>(b, 16);
  EXPECT_EQ(std::string(copied.begin() + 3, copied.begin() + 12),
            std::string("\2\1\2\3\4\1\2\3\4", 9));
  EXPECT_EQ(host.context->Fill(host.queue, a, 0, 0, pattern), absl::OkStatus());
  EXPECT_EQ(ReasonOf(host.context->Copy(host.queue, a, 0, a, 8, 64)), v1::BAD_REQUEST);  // overlaps
}

TEST_F(ContextTest, ImagesAndSamplers) {
  Host host = Open(MustCompile(Source(R"(
    kernel void smooth(read_only image2d_t in, write_only image2d_t out, sampler_t how) {
      const int2 at = (int2)(get_global_id(0), get_global_id(1));
      write_imagef(out, at, read_imagef(in, how, convert_float2(at) + 0.5f) * 2.0f);
    }
  )")));
  v1::ImageDescription description;
  description.set_dimensions(v1::IMAGE_2D);
  description.set_order(v1::CHANNEL_RGBA);
  description.set_type(v1::CHANNEL_FLOAT32);
  description.set_width(8);
  description.set_height(4);
  const absl::StatusOr<MemoryHandle> in = host.context->CreateImage(description);
  const absl::StatusOr<MemoryHandle> out = host.context->CreateImage(description);
  ASSERT_TRUE(in.ok() && out.ok()) << in.status() << out.status();
  const MemoryHandle buffer = host.Memory(8 * 4 * 16);
  std::vector<float> pixels(8 * 4 * 4);
  std::iota(pixels.begin(), pixels.end(), 1.0f);
  host.Write(buffer, pixels);
  const ImageRegion all{.origin = {0, 0, 0}, .size = {8, 4, 1}};
  ASSERT_EQ(host.context->CopyBufferToImage(host.queue, buffer, 0, *in, all), absl::OkStatus());

  v1::Sampler sampler;
  sampler.set_addressing(v1::ADDRESSING_CLAMP_TO_EDGE);
  std::vector<KernelArgument> arguments(3);
  arguments[0].kind = arguments[1].kind = KernelArgument::Kind::kImage;
  arguments[0].memory = *in;
  arguments[1].memory = *out;
  arguments[2].kind = KernelArgument::Kind::kSampler;
  arguments[2].sampler = &sampler;
  ASSERT_EQ(host.context->Launch(host.queue,
                                 LaunchOf(host.Kernel("smooth"), {1, 1, 1}, {8, 4, 1}, arguments)),
            absl::OkStatus());
  const ImageRegion part{.origin = {2, 1, 0}, .size = {3, 2, 1}};
  ASSERT_EQ(host.context->CopyImageToBuffer(host.queue, *out, part, buffer, 64), absl::OkStatus());
  const std::vector<float> result = host.Read<float>(buffer, 16 + 24);
  EXPECT_EQ(result[16], 2.0f * pixels[(1 * 8 + 2) * 4]);
  EXPECT_EQ(result[16 + 23], 2.0f * pixels[(2 * 8 + 4) * 4 + 3]);

  // A buffer is no image, and the other way round.
  arguments[0].memory = buffer;
  EXPECT_EQ(ReasonOf(host.context->Launch(
                host.queue, LaunchOf(host.Kernel("smooth"), {1, 1, 1}, {8, 4, 1}, arguments))),
            v1::INVALID_ARGUMENTS);
  EXPECT_EQ(ReasonOf(host.context->Write(host.queue, *in, 0, "x")), v1::INVALID_ARGUMENTS);
  description.clear_type();
  EXPECT_EQ(ReasonOf(host.context->CreateImage(description).status()), v1::BAD_REQUEST);
  EXPECT_EQ(host.context->Free(*in), absl::OkStatus());
}

TEST_F(ContextTest, QueuesLaunchOneKernelWithTheirOwnArguments) {
  Host host = Open(MustCompile(Source(R"(
    kernel void set(global int* a, int value) { a[get_global_id(0)] = value; }
    kernel void check(global const int* a, global int* wrong, int value) {
      if (a[get_global_id(0)] != value) atomic_inc(wrong);
    }
  )")));
  const KernelHandle set = host.Kernel("set");
  const KernelHandle check = host.Kernel("check");
  constexpr int kRounds = 300;
  std::vector<std::thread> threads;
  std::vector<MemoryHandle> wrong;
  for (int t = 0; t < 4; ++t) {
    wrong.push_back(host.Memory(4));
    host.Write(wrong.back(), std::vector<int>{0});
  }
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const absl::StatusOr<QueueHandle> queue = host.context->CreateQueue();
      ASSERT_TRUE(queue.ok());
      const MemoryHandle data = host.Memory(64 * 4);
      for (int round = 0; round < kRounds; ++round) {
        const int value = t * kRounds + round;
        const std::vector<KernelArgument> write{BufferArgument(data), ScalarArgument(value)};
        const std::vector<KernelArgument> read{BufferArgument(data), BufferArgument(wrong[t]),
                                               ScalarArgument(value)};
        ASSERT_TRUE(host.context->Launch(*queue, LaunchOf(set, {1, 1, 1}, {64, 1, 1}, write)).ok());
        ASSERT_TRUE(
            host.context->Launch(*queue, LaunchOf(check, {1, 1, 1}, {64, 1, 1}, read)).ok());
      }
      const absl::StatusOr<MarkerHandle> marker = host.context->RecordMarker(*queue);
      ASSERT_TRUE(marker.ok());
      EXPECT_EQ(host.context->WaitMarker(*marker), absl::OkStatus());
      EXPECT_EQ(host.context->Free(data), absl::OkStatus());
      EXPECT_EQ(host.context->DestroyQueue(*queue), absl::OkStatus());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const MemoryHandle memory : wrong) EXPECT_EQ(host.Read<int>(memory, 1)[0], 0);
}

TEST_F(ContextTest, FailuresAreTypedAndLeaveTheContextUsable) {
  const v1::Artifact artifact = MustCompile(Source(kScale));
  Host host = Open(artifact);
  EXPECT_EQ(ReasonOf(host.context->Allocate(uint64_t{1} << 50, MemoryKind::kDevice).status()),
            v1::OUT_OF_DEVICE_MEMORY);
  v1::KernelInfo info;
  info.set_entry("missing");
  const absl::Status unknown =
      host.context->ResolveKernel(host.module, {}, &info, &host.statistics).status();
  EXPECT_EQ(ReasonOf(unknown), v1::UNKNOWN_ENTRY);
  EXPECT_THAT(std::string(unknown.message()), ::testing::HasSubstr("scale"));
  v1::Artifact foreign = artifact;
  foreign.set_architecture("sm_90a");
  EXPECT_EQ(ReasonOf(host.context->LoadModule(foreign, &host.statistics).status()),
            v1::UNSUPPORTED_ARCHITECTURE);
  v1::Artifact garbled = artifact;
  garbled.set_binary("no binary");
  EXPECT_EQ(ReasonOf(host.context->LoadModule(garbled, &host.statistics).status()),
            v1::UNSUPPORTED_ARCHITECTURE);
  ContextOptions options;
  options.index = 7;
  EXPECT_EQ(ReasonOf(TheBackend().family->OpenContext(options).status()), v1::UNKNOWN_DEVICE);

  const MemoryHandle memory = host.Memory(256);
  const float factor = 1.0f;
  const double wrong_size = 1.0;
  std::vector<KernelArgument> arguments{BufferArgument(memory), BufferArgument(memory),
                                        ScalarArgument(wrong_size)};
  const KernelHandle scale = host.Kernel("scale");
  const absl::Status bad =
      host.context->Launch(host.queue, LaunchOf(scale, {1, 1, 1}, {64, 1, 1}, arguments));
  EXPECT_EQ(ReasonOf(bad), v1::INVALID_ARGUMENTS);
  EXPECT_THAT(std::string(bad.message()), ::testing::HasSubstr("argument 2: CL_INVALID_ARG_SIZE"));
  arguments[2] = ScalarArgument(factor);
  EXPECT_EQ(host.context->Launch(host.queue, LaunchOf(scale, {1, 1, 1}, {64, 1, 1}, arguments)),
            absl::OkStatus());
  EXPECT_EQ(host.Finish(), absl::OkStatus());
}

TEST_F(ContextTest, EverythingIsReleasedOneByOne) {
  Host host = Open(MustCompile(Source(kScale)));
  const KernelHandle kernel = host.Kernel("scale");
  const absl::StatusOr<MemoryHandle> memory = host.context->Allocate(64, MemoryKind::kHostVisible);
  ASSERT_TRUE(memory.ok());
  EXPECT_EQ(host.context->ReleaseKernel(kernel), absl::OkStatus());
  EXPECT_EQ(host.context->UnloadModule(host.module), absl::OkStatus());
  EXPECT_EQ(host.context->Free(*memory), absl::OkStatus());
  EXPECT_EQ(host.context->DestroyQueue(host.queue), absl::OkStatus());
  EXPECT_EQ(host.context->Close(), absl::OkStatus());
}

}  // namespace
}  // namespace kcache::backend::opencl
