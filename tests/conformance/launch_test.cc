// Launching: extents, arguments of every kind, and what is refused.

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <tuple>
#include <vector>

#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

class Launch : public OnDevice {};

TEST_F(Launch, VectorAddOfAnyLength) {
  for (const uint32_t count : {1u, 63u, 64u, 65u, 1000u, 100000u}) {
    RunVectorAdd(client(), device(), count);
  }
}

TEST_F(Launch, ScalarByValue) {
  constexpr uint32_t kCount = 1000;
  const Kernel kernel = Acquire(Role::kSaxpy);
  ASSERT_FALSE(kernel.empty());
  std::vector<float> x(kCount), y(kCount, 1.0f);
  std::iota(x.begin(), x.end(), 0.0f);
  Buffer buffer_x = AllocateWith(x), buffer_y = AllocateWith(y);
  KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(16), buffer_x, buffer_y, kCount, 3.0f));
  KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(16), buffer_x, buffer_y, kCount / 2, -1.0f));
  const std::vector<float> result = Contents<float>(buffer_y, kCount);
  for (uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(result[i], 1.0f + (i < kCount / 2 ? 2.0f : 3.0f) * x[i]) << i;
  }
}

TEST_F(Launch, ScalarsOfSeveralSizes) {
  const Kernel kernel = Acquire(Role::kScalars);
  ASSERT_FALSE(kernel.empty());
  Buffer out = Allocate(16);
  const uint32_t a = 0x12345678;
  const float b = 1.5f;
  const uint64_t c = 0x1122334455667788;
  KCACHE_ASSERT_OK(kernel.Launch(queue(), Single(), out, a, b, c));
  uint32_t b_bits = 0;
  std::memcpy(&b_bits, &b, sizeof(b));
  EXPECT_THAT(Contents<uint32_t>(out, 4),
              ::testing::ElementsAre(a, b_bits, 0x55667788u, 0x11223344u));
}

class Extents : public OnDevice, public ::testing::WithParamInterface<std::tuple<Dim3, Dim3>> {};

TEST_P(Extents, EveryItemRunsOnce) {
  const auto& [grid, local] = GetParam();
  Specialization specialization;
  specialization.local_size = local;
  const Kernel kernel = Acquire(Role::kIndex3d, specialization);
  ASSERT_FALSE(kernel.empty());
  const uint32_t nx = grid.x * local.x, ny = grid.y * local.y, nz = grid.z * local.z;
  Buffer out = AllocateWith(std::vector<uint32_t>(size_t{nx} * ny * nz, 0xdeadbeef));
  KCACHE_ASSERT_OK(kernel.Launch(queue(), LaunchConfig::Grid(grid, local), out));
  const std::vector<uint32_t> result = Contents<uint32_t>(out, size_t{nx} * ny * nz);
  for (uint32_t z = 0; z < nz; ++z) {
    for (uint32_t y = 0; y < ny; ++y) {
      for (uint32_t x = 0; x < nx; ++x) {
        ASSERT_EQ(result[(size_t{z} * ny + y) * nx + x], z * 1000000 + y * 1000 + x)
            << x << "," << y << "," << z;
      }
    }
  }
}

std::string ExtentName(const ::testing::TestParamInfo<std::tuple<Dim3, Dim3>>& info) {
  const auto text = [](const Dim3& extent) {
    return std::to_string(extent.x) + "x" + std::to_string(extent.y) + "x" +
           std::to_string(extent.z);
  };
  return "Grid" + text(std::get<0>(info.param)) + "Local" + text(std::get<1>(info.param));
}

INSTANTIATE_TEST_SUITE_P(
    OneToThreeDimensions, Extents,
    ::testing::Values(std::tuple(Dim3(1), Dim3(1)), std::tuple(Dim3(7), Dim3(32)),
                      std::tuple(Dim3(100), Dim3(3)), std::tuple(Dim3(3, 5), Dim3(8, 4)),
                      std::tuple(Dim3(1, 9), Dim3(1, 16)), std::tuple(Dim3(2, 3, 4), Dim3(4, 2, 2)),
                      std::tuple(Dim3(1, 1, 5), Dim3(1, 1, 8))),
    ExtentName);

TEST_F(Launch, GlobalSizeInsteadOfGrid) {
  Specialization specialization;
  specialization.local_size = {8, 2};
  const Kernel kernel = Acquire(Role::kIndex3d, specialization);
  ASSERT_FALSE(kernel.empty());
  Buffer out = Allocate(32 * 6 * 4);
  KCACHE_ASSERT_OK(kernel.Launch(queue(), LaunchConfig::Global({32, 6}, {8, 2}), out));
  const std::vector<uint32_t> result = Contents<uint32_t>(out, 32 * 6);
  for (uint32_t i = 0; i < result.size(); ++i) {
    ASSERT_EQ(result[i], i / 32 * 1000 + i % 32);
  }
}

TEST_F(Launch, LocalMemory) {
  const Kernel kernel = Acquire(Role::kReduce);
  ASSERT_FALSE(kernel.empty());
  constexpr uint32_t kGroups = 50;
  std::vector<uint32_t> values(kGroups * 64);
  std::iota(values.begin(), values.end(), 1u);
  Buffer in = AllocateWith(values), out = AllocateWith(std::vector<uint32_t>(kGroups, 0));
  KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(kGroups), in, out));
  const std::vector<uint32_t> sums = Contents<uint32_t>(out, kGroups);
  for (uint32_t group = 0; group < kGroups; ++group) {
    EXPECT_EQ(sums[group],
              std::accumulate(values.begin() + group * 64, values.begin() + (group + 1) * 64, 0u));
  }
}

TEST_F(Launch, DynamicLocalMemory) {
  const Kernel kernel = Acquire(Role::kReduceDynamic);
  ASSERT_FALSE(kernel.empty());
  std::vector<uint32_t> values(128);
  std::iota(values.begin(), values.end(), 1u);
  Buffer in = AllocateWith(values), out = AllocateWith(std::vector<uint32_t>(2, 0));
  LaunchConfig config = Linear(2);
  if (kernel.info().arguments.size() == 3) {  // the API has an argument for it
    KCACHE_ASSERT_OK(kernel.Launch(queue(), config, in, out, LocalMemory{64 * 4}));
  } else {
    config.dynamic_local_bytes = 64 * 4;
    KCACHE_ASSERT_OK(kernel.Launch(queue(), config, in, out));
  }
  EXPECT_THAT(Contents<uint32_t>(out, 2), ::testing::ElementsAre(64u * 65 / 2, 64u * 193 / 2));
}

TEST_F(Launch, UnalignedBytes) {
  const Kernel kernel = Acquire(Role::kBytes);
  ASSERT_FALSE(kernel.empty());
  constexpr uint32_t kBytes = 1001;
  for (const uint32_t offset : {0u, 1u, 3u, 501u}) {
    Buffer out = AllocateWith(std::vector<uint8_t>(kBytes, 0xee));
    const uint32_t count = kBytes - offset;
    KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear((count + 63) / 64), out, offset, count));
    const std::vector<uint8_t> result = Contents<uint8_t>(out, kBytes);
    for (uint32_t i = 0; i < kBytes; ++i) {
      ASSERT_EQ(result[i], i < offset ? 0xee : static_cast<uint8_t>(7 * (i - offset) + 3)) << i;
    }
  }
}

// Increments the 64 elements from byte `offset` on, in place, and looks at all.
class PartOfABuffer : public OnDevice {
 protected:
  static constexpr uint32_t kCount = 1024;

  uint64_t alignment() const {
    return Suite::Get().devices().at(0).limits.buffer_offset_alignment;
  }

  void ExpectIncremented(const Buffer& data, const std::vector<uint64_t>& offsets) {
    std::vector<uint32_t> expected(kCount, 5);
    for (const uint64_t offset : offsets) {
      for (uint64_t i = 0; i < 64; ++i) ++expected[offset / sizeof(uint32_t) + i];
    }
    EXPECT_EQ(Contents<uint32_t>(data, kCount), expected);
  }
};

TEST_F(PartOfABuffer, AlignmentIsTold) { EXPECT_GT(alignment(), 0u); }

TEST_F(PartOfABuffer, AtTheDevicesAlignment) {
  const Kernel kernel = Acquire(Role::kIncrement);
  ASSERT_FALSE(kernel.empty());
  Buffer data = AllocateWith(std::vector<uint32_t>(kCount, 5));
  const uint64_t step = std::max<uint64_t>(alignment(), 256);
  ASSERT_LE(3 * step + 256, kCount * sizeof(uint32_t));
  for (const uint64_t offset : {step, 3 * step}) {
    auto part = data.View(offset, 256);
    ASSERT_TRUE(part.ok()) << part.status();
    KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(1), *part));
  }
  ExpectIncremented(data, {step, 3 * step});
  EXPECT_EQ(FailureReason(data.View(kCount * 4 - 100, 200).status()), Reason::kBufferOutOfRange);
}

// Never the wrong part: the right one, or an error that names offset and alignment.
TEST_F(PartOfABuffer, AtAnyOtherOffset) {
  const Kernel kernel = Acquire(Role::kIncrement);
  ASSERT_FALSE(kernel.empty());
  for (const uint64_t offset : {uint64_t{4}, uint64_t{256}, uint64_t{516}}) {
    Buffer data = AllocateWith(std::vector<uint32_t>(kCount, 5));
    auto part = data.View(offset, 256);
    ASSERT_TRUE(part.ok()) << part.status();
    KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(1), *part));
    const absl::Status ran = queue().Synchronize();
    if (offset % alignment() != 0 && backend().refuses_unaligned_parts) {
      EXPECT_EQ(FailureReason(ran), Reason::kInvalidArguments) << ran;
      EXPECT_THAT(std::string(ran.message()),
                  ::testing::AllOf(::testing::HasSubstr(std::to_string(offset)),
                                   ::testing::HasSubstr(std::to_string(alignment()))));
      ExpectIncremented(data, {});
    } else {
      KCACHE_EXPECT_OK(ran);
      ExpectIncremented(data, {offset});
    }
  }
}

// In order with what is before and behind it on the queue, and repeated.
TEST_F(PartOfABuffer, UnalignedBetweenOtherCommands) {
  const Kernel kernel = Acquire(Role::kIncrement);
  ASSERT_FALSE(kernel.empty());
  Buffer data = Allocate(kCount * sizeof(uint32_t));
  const uint32_t five = 5;
  KCACHE_ASSERT_OK(data.Fill(queue(), 0, kCount * 4, std::as_bytes(std::span(&five, 1))));
  auto part = data.View(36, 256);
  ASSERT_TRUE(part.ok()) << part.status();
  LaunchConfig config = Linear(1);
  config.repeat = 3;
  KCACHE_ASSERT_OK(kernel.Launch(queue(), config, *part));
  KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(kCount / 64), data));
  KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(1), *part));
  std::vector<uint32_t> expected(kCount, 6);
  for (size_t i = 0; i < 64; ++i) expected[9 + i] += 4;
  EXPECT_EQ(Contents<uint32_t>(data, kCount), expected);
}

TEST_F(Launch, Repeat) {
  const Kernel kernel = Acquire(Role::kIncrement);
  ASSERT_FALSE(kernel.empty());
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 0));
  LaunchConfig config = Linear(1);
  config.repeat = 500;
  KCACHE_ASSERT_OK(kernel.Launch(queue(), config, data));
  EXPECT_THAT(Contents<uint32_t>(data, 64), ::testing::Each(500u));
}

TEST_F(Launch, SpecializationConstants) {
  for (const uint32_t factor : {2u, 9u, 1000u}) {
    Specialization specialization;
    if (factor != 2) specialization.constants = {{.id = 3, .value = factor}};
    const Kernel kernel = Acquire(Role::kSpecialized, specialization);
    ASSERT_FALSE(kernel.empty());
    Buffer out = Allocate(256);
    KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(1), out));
    const std::vector<uint32_t> result = Contents<uint32_t>(out, 64);
    for (uint32_t i = 0; i < 64; ++i) ASSERT_EQ(result[i], factor * i);
  }
}

// The whole block at once, instead of a scalar for each member.
TEST_F(Launch, PushConstants) {
  const Kernel kernel = Acquire(Role::kSaxpy);
  ASSERT_FALSE(kernel.empty());
  EXPECT_EQ(kernel.info().push_constant_bytes, 8u);
  Buffer x = AllocateWith(std::vector<float>(64, 2.0f)),
         y = AllocateWith(std::vector<float>(64, 1));
  struct {
    uint32_t n;
    float a;
  } block = {64, 10.0f};
  LaunchConfig config = Linear(1);
  config.push_constants = std::as_bytes(std::span(&block, 1));
  KCACHE_ASSERT_OK(kernel.Launch(queue(), config, x, y));
  EXPECT_THAT(Contents<float>(y, 64), ::testing::Each(21.0f));
  // Of the wrong size it is refused, wherever that is noticed.
  config.push_constants = config.push_constants.first(4);
  absl::Status refused = kernel.Launch(queue(), config, x, y);
  if (refused.ok()) refused = queue().Synchronize();
  EXPECT_EQ(FailureReason(refused), Reason::kInvalidArguments) << refused;
}

// ---- what is refused: at once where the library can tell, else at the next synchronize

class Refusals : public OnDevice {
 protected:
  template <class... Args>
  absl::Status Outcome(const Kernel& kernel, const LaunchConfig& config, const Args&... args) {
    const absl::Status at_once = kernel.Launch(queue(), config, args...);
    return at_once.ok() ? queue().Synchronize() : at_once;
  }
};

TEST_F(Refusals, ArgumentsByReflection) {
  const Kernel kernel = Acquire(Role::kSaxpy);
  ASSERT_FALSE(kernel.empty());
  if (!kernel.info().arguments_known) {
    // Said, not hidden: the driver is too old to tell.
    GTEST_SKIP() << "this driver does not tell what a kernel's arguments are";
  }
  Buffer x = Allocate(256), y = Allocate(256);
  const uint32_t n = 64;
  const float a = 1;
  const double wide = 1;
  EXPECT_EQ(FailureReason(Outcome(kernel, Linear(1), x, y, n)), Reason::kInvalidArguments);
  EXPECT_EQ(FailureReason(Outcome(kernel, Linear(1), x, y, n, a, a)), Reason::kInvalidArguments);
  EXPECT_EQ(FailureReason(Outcome(kernel, Linear(1), x, y, n, wide)), Reason::kInvalidArguments);
  EXPECT_EQ(FailureReason(Outcome(kernel, Linear(1), x, n, n, a)), Reason::kInvalidArguments);
  EXPECT_EQ(FailureReason(Outcome(kernel, Linear(1), x, y, x, a)), Reason::kInvalidArguments);
  // And nothing is broken by any of it.
  KCACHE_EXPECT_OK(Outcome(kernel, Linear(1), x, y, n, a));
}

TEST_F(Refusals, Extents) {
  const Kernel kernel = Acquire(Role::kIncrement);
  ASSERT_FALSE(kernel.empty());
  Buffer data = Allocate(256);
  const uint32_t most = Suite::Get().devices()[0].limits.max_local_size;
  EXPECT_EQ(FailureReason(Outcome(kernel, LaunchConfig::Grid({0}, {64}), data)),
            Reason::kInvalidLaunch);
  EXPECT_EQ(FailureReason(Outcome(kernel, LaunchConfig::Grid({1}, {most + 1}), data)),
            Reason::kInvalidLaunch);
  EXPECT_EQ(FailureReason(Outcome(kernel, LaunchConfig::Global({65}, {64}), data)),
            Reason::kInvalidLaunch);
  EXPECT_EQ(FailureReason(Outcome(kernel, LaunchConfig{}, data)), Reason::kInvalidLaunch);
  KCACHE_EXPECT_OK(Outcome(kernel, Linear(1), data));
}

TEST_F(Refusals, ForeignAndEmptyBuffers) {
  const Kernel kernel = Acquire(Role::kIncrement);
  ASSERT_FALSE(kernel.empty());
  EXPECT_EQ(FailureReason(Outcome(kernel, Linear(1), Buffer())), Reason::kUnknownBuffer);
}

}  // namespace
}  // namespace kcache::conformance
