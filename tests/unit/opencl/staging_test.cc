// Parts of buffers at offsets that the device has no sub-buffers for.

#include "backends/opencl/staging.h"

#include <numeric>
#include <string>
#include <tuple>
#include <vector>

#include "contract/error_reason.h"
#include "tests/unit/opencl/fixture.h"

namespace kcache::backend::opencl {
namespace {

constexpr uint32_t kAlignment = 512;  // NVIDIA's; PoCL's is smaller

constexpr char kPrograms[] = R"(
  kernel void increment(global uint* data) { data[get_global_id(0)] += 1; }
  kernel void add(global const uint* a, global const uint* b, global uint* sum) {
    const size_t i = get_global_id(0);
    sum[i] = a[i] + b[i];
  }
)";

using Ranges = std::vector<std::tuple<MemoryHandle, uint64_t, uint64_t>>;

absl::StatusOr<Ranges> Plan(const std::vector<KernelArgument>& arguments) {
  const absl::StatusOr<std::vector<StagedRange>> planned = PlanStaging(arguments, kAlignment);
  if (!planned.ok()) return planned.status();
  Ranges ranges;
  for (const StagedRange& range : *planned) {
    ranges.emplace_back(range.memory, range.begin, range.end);
  }
  return ranges;
}

TEST(StagingPlanTest, AlignedPartsAreShownInPlace) {
  const std::vector<KernelArgument> arguments = {BufferArgument(1, 0, 4096),
                                                 BufferArgument(1, 512, 8),
                                                 BufferArgument(2, 1024, 64), LocalArgument(100)};
  EXPECT_FALSE(NeedsStaging(arguments, kAlignment));
  EXPECT_EQ(*Plan(arguments), Ranges());
}

TEST(StagingPlanTest, OnlyTheUnalignedAreCopied) {
  const std::vector<KernelArgument> arguments = {
      BufferArgument(1, 256, 256), BufferArgument(2, 256, 64), BufferArgument(1, 1024, 64)};
  EXPECT_TRUE(NeedsStaging(arguments, kAlignment));
  EXPECT_EQ(*Plan(arguments), (Ranges{{1, 256, 512}, {2, 256, 320}}));
}

TEST(StagingPlanTest, EqualAndCongruentPartsShareACopy) {
  EXPECT_EQ(*Plan({BufferArgument(1, 4, 600), BufferArgument(1, 4, 600)}), (Ranges{{1, 4, 604}}));
  EXPECT_EQ(*Plan({BufferArgument(1, 516, 100), BufferArgument(1, 4, 600)}),
            (Ranges{{1, 4, 616}}));
  // They only touch: a copy each.
  EXPECT_EQ(*Plan({BufferArgument(1, 4, 4), BufferArgument(1, 8, 4)}),
            (Ranges{{1, 4, 8}, {1, 8, 12}}));
}

TEST(StagingPlanTest, OverlappingPartsThatCannotShareAreRefused) {
  for (const auto& arguments :
       {std::vector{BufferArgument(1, 4, 100), BufferArgument(1, 8, 100)},
        std::vector{BufferArgument(1, 0, 4096), BufferArgument(1, 256, 256)},
        std::vector{BufferArgument(1, 260, 4096), BufferArgument(1, 512, 256)}}) {
    const absl::Status refused = Plan(arguments).status();
    EXPECT_EQ(ReasonOf(refused), v1::INVALID_ARGUMENTS);
    EXPECT_THAT(std::string(refused.message()), ::testing::HasSubstr("multiples of 512"));
    EXPECT_THAT(std::string(refused.message()),
                ::testing::HasSubstr(std::to_string(arguments[1].offset)));
  }
}

class StagingTest : public OpenClTest {};

TEST_F(StagingTest, EveryOffsetShowsTheRightPart) {
  Host host = OpenAligned(MustCompile(Source(kPrograms)), kAlignment);
  const KernelHandle increment = host.Kernel("increment");
  const MemoryHandle memory = host.Memory(4096);
  for (const uint64_t offset : {4U, 64U, 128U, 256U, 508U, 512U, 516U, 1024U, 3840U}) {
    host.Write(memory, std::vector<uint32_t>(1024, 5));
    const std::vector<KernelArgument> arguments{BufferArgument(memory, offset, 256)};
    ASSERT_EQ(host.context->Launch(host.queue,
                                   LaunchOf(increment, {1, 1, 1}, {64, 1, 1}, arguments)),
              absl::OkStatus());
    std::vector<uint32_t> expected(1024, 5);
    for (size_t i = 0; i < 64; ++i) ++expected[offset / 4 + i];
    EXPECT_EQ(host.Read<uint32_t>(memory, 1024), expected) << offset;
  }
}

TEST_F(StagingTest, TheSameArgumentSeesWhatHappenedInBetween) {
  Host host = OpenAligned(MustCompile(Source(kPrograms)), kAlignment);
  const KernelHandle increment = host.Kernel("increment");
  const MemoryHandle memory = host.Memory(1024);
  host.Write(memory, std::vector<uint32_t>(256, 0));
  const std::vector<KernelArgument> part{BufferArgument(memory, 256, 256)};
  const std::vector<KernelArgument> whole{BufferArgument(memory, 0, 1024)};
  LaunchCommand twice = LaunchOf(increment, {1, 1, 1}, {64, 1, 1}, part);
  twice.repeat = 2;
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(host.context->Launch(host.queue, twice), absl::OkStatus());
    ASSERT_EQ(
        host.context->Launch(host.queue, LaunchOf(increment, {4, 1, 1}, {64, 1, 1}, whole)),
        absl::OkStatus());
  }
  const std::vector<uint32_t> result = host.Read<uint32_t>(memory, 256);
  for (size_t i = 0; i < 256; ++i) EXPECT_EQ(result[i], i >= 64 && i < 128 ? 9U : 3U) << i;
}

TEST_F(StagingTest, OverlappingArgumentsAliasAsInPlace) {
  Host host = OpenAligned(MustCompile(Source(kPrograms)), kAlignment);
  const MemoryHandle memory = host.Memory(4096);
  std::vector<uint32_t> values(1024);
  std::iota(values.begin(), values.end(), 0U);
  host.Write(memory, values);
  // sum = a, at offset 4; b one alignment on, within reach of a.
  const std::vector<KernelArgument> arguments{BufferArgument(memory, 4, 1024),
                                              BufferArgument(memory, 516, 256),
                                              BufferArgument(memory, 4, 256)};
  ASSERT_EQ(host.context->Launch(host.queue, LaunchOf(host.Kernel("add"), {1, 1, 1}, {64, 1, 1},
                                                      arguments)),
            absl::OkStatus());
  std::vector<uint32_t> expected = values;
  for (size_t i = 0; i < 64; ++i) expected[1 + i] = values[1 + i] + values[129 + i];
  EXPECT_EQ(host.Read<uint32_t>(memory, 1024), expected);
}

TEST_F(StagingTest, WhatIsRefusedChangesNothing) {
  Host host = OpenAligned(MustCompile(Source(kPrograms)), kAlignment);
  const MemoryHandle memory = host.Memory(4096);
  host.Write(memory, std::vector<uint32_t>(1024, 5));
  const std::vector<KernelArgument> arguments{BufferArgument(memory, 4, 256),
                                              BufferArgument(memory, 8, 256),
                                              BufferArgument(memory, 2048, 256)};
  const absl::Status refused = host.context->Launch(
      host.queue, LaunchOf(host.Kernel("add"), {1, 1, 1}, {64, 1, 1}, arguments));
  EXPECT_EQ(ReasonOf(refused), v1::INVALID_ARGUMENTS);
  EXPECT_EQ(host.Read<uint32_t>(memory, 1024), std::vector<uint32_t>(1024, 5));
}

}  // namespace
}  // namespace kcache::backend::opencl
