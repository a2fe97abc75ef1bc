// Copies of every kind, size and alignment.

#include <random>

#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

std::vector<uint8_t> Noise(size_t bytes, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<uint8_t> data(bytes);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
  return data;
}

// OK, or where the first difference is and how many there are: the data would fill the screen.
::testing::AssertionResult Same(const std::vector<uint8_t>& actual,
                                const std::vector<uint8_t>& expected) {
  if (actual == expected) return ::testing::AssertionSuccess();
  if (actual.size() != expected.size()) {
    return ::testing::AssertionFailure() << actual.size() << " bytes, not " << expected.size();
  }
  size_t first = 0, last = 0, count = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    if (count++ == 0) first = i;
    last = i;
  }
  return ::testing::AssertionFailure()
         << count << " of " << actual.size() << " bytes differ, from " << first << " to " << last
         << "; byte " << first << " is " << int{actual[first]} << ", not " << int{expected[first]};
}

struct Range {
  uint64_t offset, bytes;
};

class Copies : public OnDevice, public ::testing::WithParamInterface<Range> {
 protected:
  // A margin on both sides shows what is written beyond the range.
  static constexpr uint64_t kMargin = 67;

  uint64_t total() const { return GetParam().offset + GetParam().bytes + kMargin; }
  std::vector<uint8_t> Background() const { return std::vector<uint8_t>(total(), 0xa5); }
  std::vector<uint8_t> Expected(const std::vector<uint8_t>& data) const {
    std::vector<uint8_t> expected = Background();
    std::copy(data.begin(), data.end(),
              expected.begin() + static_cast<std::ptrdiff_t>(GetParam().offset));
    return expected;
  }
};

TEST_P(Copies, WriteAndReadBack) {
  const auto [offset, bytes] = GetParam();
  Buffer buffer = AllocateWith(Background());
  const std::vector<uint8_t> data = Noise(bytes, 1);
  KCACHE_ASSERT_OK(buffer.Write(queue(), offset, std::as_bytes(std::span(data))));
  std::vector<uint8_t> part(bytes);
  KCACHE_ASSERT_OK(buffer.Read(queue(), offset, std::as_writable_bytes(std::span(part))));
  EXPECT_TRUE(Same(part, data));
  EXPECT_TRUE(Same(Contents<uint8_t>(buffer, total()), Expected(data)));
}

TEST_P(Copies, BufferToBuffer) {
  const auto [offset, bytes] = GetParam();
  const std::vector<uint8_t> data = Noise(bytes + 13, 2);
  Buffer source = AllocateWith(data), destination = AllocateWith(Background());
  KCACHE_ASSERT_OK(destination.CopyFrom(queue(), offset, source, 13, bytes));
  EXPECT_TRUE(
      Same(Contents<uint8_t>(destination, total()), Expected({data.begin() + 13, data.end()})));
}

TEST_P(Copies, WithinOneBuffer) {
  const auto [offset, bytes] = GetParam();
  std::vector<uint8_t> model = Noise(offset + 2 * bytes + 5, 3);
  Buffer buffer = AllocateWith(model);
  KCACHE_ASSERT_OK(buffer.CopyFrom(queue(), offset + bytes + 5, buffer, offset, bytes));
  std::copy_n(model.begin() + static_cast<std::ptrdiff_t>(offset), bytes,
              model.begin() + static_cast<std::ptrdiff_t>(offset + bytes + 5));
  EXPECT_TRUE(Same(Contents<uint8_t>(buffer, model.size()), model));
}

TEST_P(Copies, FillWithEveryPattern) {
  const auto [offset, bytes] = GetParam();
  for (const size_t size : {1u, 2u, 4u, 8u, 16u}) {
    const std::vector<uint8_t> pattern = Noise(size, static_cast<uint32_t>(size));
    const uint64_t whole = bytes / size * size;
    if (whole == 0) continue;
    Buffer buffer = AllocateWith(Background());
    // OpenCL wants the offset to be a multiple of the pattern as well; so be it for all.
    const uint64_t at = offset / size * size;
    KCACHE_ASSERT_OK(buffer.Fill(queue(), at, whole, std::as_bytes(std::span(pattern))));
    std::vector<uint8_t> expected = Background();
    for (uint64_t i = 0; i < whole; ++i) expected[at + i] = pattern[i % size];
    EXPECT_TRUE(Same(Contents<uint8_t>(buffer, total()), expected)) << "pattern of " << size;
  }
}

INSTANTIATE_TEST_SUITE_P(Ranges, Copies,
                         ::testing::Values(Range{0, 1}, Range{0, 4}, Range{1, 3}, Range{3, 1},
                                           Range{5, 7}, Range{4, 64}, Range{63, 65}, Range{0, 4096},
                                           Range{1, 4093}, Range{4096, 65536},
                                           Range{7, (1 << 20) + 5}, Range{2, (9 << 20) + 3}),
                         [](const ::testing::TestParamInfo<Range>& info) {
                           return std::to_string(info.param.bytes) + "BytesAt" +
                                  std::to_string(info.param.offset);
                         });

class CopyOrder : public OnDevice {};

TEST_F(CopyOrder, BeyondTheEndIsRefused) {
  Buffer buffer = Allocate(100);
  std::vector<std::byte> data(60);
  const auto outcome = [this](absl::Status at_once) {
    return FailureReason(at_once.ok() ? queue().Synchronize() : at_once);
  };
  EXPECT_EQ(outcome(buffer.Write(queue(), 50, data)), Reason::kBufferOutOfRange);
  EXPECT_EQ(outcome(buffer.Read(queue(), 50, data)), Reason::kBufferOutOfRange);
  EXPECT_EQ(outcome(buffer.Read(queue(), UINT64_MAX - 10, data)), Reason::kBufferOutOfRange);
  EXPECT_EQ(outcome(buffer.Fill(queue(), 99, 2, std::span(data).first(1))),
            Reason::kBufferOutOfRange);
  Buffer other = Allocate(10);
  EXPECT_EQ(outcome(buffer.CopyFrom(queue(), 0, other, 5, 6)), Reason::kBufferOutOfRange);
  KCACHE_EXPECT_OK(buffer.Write(queue(), 40, data));
  KCACHE_EXPECT_OK(queue().Synchronize());
}

// Many writes, launches and asynchronous reads in one queue: each read sees exactly what was
// before.
TEST_F(CopyOrder, ReadsAreSnapshots) {
  const Kernel kernel = Acquire(Role::kIncrement);
  ASSERT_FALSE(kernel.empty());
  Buffer data = AllocateWith(std::vector<uint32_t>(64, 0));
  constexpr size_t kReads = 100;
  std::vector<uint32_t> seen(kReads, 999);
  for (size_t i = 0; i < kReads; ++i) {
    KCACHE_ASSERT_OK(data.ReadAsync(queue(), 128, std::as_writable_bytes(std::span(&seen[i], 1)),
                                    [](absl::Status status) { KCACHE_EXPECT_OK(status); }));
    KCACHE_ASSERT_OK(kernel.Launch(queue(), Linear(1), data));
  }
  // The queue's own order covers the reads too.
  EXPECT_EQ(Contents<uint32_t>(data, 64)[0], kReads);
  for (size_t i = 0; i < kReads; ++i) EXPECT_EQ(seen[i], i);
}

TEST_F(CopyOrder, WritesAreTakenAtTheCall) {
  Buffer buffer = Allocate(1 << 20);
  std::vector<uint8_t> data(1 << 20, 1);
  KCACHE_ASSERT_OK(buffer.Write(queue(), data));
  std::fill(data.begin(), data.end(), 2);
  EXPECT_THAT(Contents<uint8_t>(buffer, 1 << 20), ::testing::Each(1));
}

}  // namespace
}  // namespace kcache::conformance
