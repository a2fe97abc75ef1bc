// Device memory: limits, fallback, what is left when a session ends.

#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

class Memory : public OnDevice {};

// G11: too much is an error that says so, and the context lives.
TEST_F(Memory, G11_OutOfMemoryIsAnErrorAndNotADeath) {
  RunVectorAdd(client(), device(), 100);
  const Admin admin(Suite::Get().daemon().admin_socket());
  auto before = admin.Contexts(device());
  ASSERT_TRUE(before.ok()) << before.status();
  const uint64_t all = Suite::Get().devices()[0].limits.memory_bytes;
  for (const uint64_t bytes : {all + (uint64_t{1} << 30), all * 8, UINT64_MAX / 2}) {
    auto buffer = client().Allocate(device(), bytes);
    ASSERT_FALSE(buffer.ok()) << bytes;
    EXPECT_THAT(FailureReason(buffer.status()),
                ::testing::AnyOf(Reason::kOutOfDeviceMemory, Reason::kLimitExceeded))
        << buffer.status();
  }
  RunVectorAdd(client(), device(), 100);
  auto after = admin.Contexts(device());
  ASSERT_TRUE(after.ok()) << after.status();
  ASSERT_FALSE(before->empty() || after->empty());
  EXPECT_EQ(before->back().context().generation(), after->back().context().generation());
}

// G11: what one trust domain has on a device is bounded for all its sessions together, and by name.
TEST_F(Memory, G11_DeviceMemoryOfADomainIsBounded) {
  constexpr uint64_t kKiB = 1024;
  auto daemon = Suite::Get().NewDaemon({"--limits.max-device-bytes-per-domain=1MiB"});
  ASSERT_TRUE(daemon.ok()) << daemon.status();
  {
    auto first = Connect(**daemon, "first"), second = Connect(**daemon, "second");
    ASSERT_TRUE(first.ok() && second.ok());
    auto held = (*first)->Allocate(device(), 700 * kKiB);
    ASSERT_TRUE(held.ok()) << held.status();
    for (const bool scratch : {false, true}) {
      const absl::Status refused =
          scratch ? (*second)->Scratch(device(), "workspace", 400 * kKiB).status()
                  : (*second)->Allocate(device(), 400 * kKiB).status();
      EXPECT_EQ(FailureReason(refused), Reason::kLimitExceeded)
          << (scratch ? "scratch: " : "a buffer: ") << refused;
      EXPECT_THAT(std::string(refused.message()),
                  ::testing::AllOf(::testing::HasSubstr("max_device_bytes_per_domain"),
                                   ::testing::HasSubstr(std::to_string(kKiB * kKiB))));
    }
    auto fits = (*second)->Allocate(device(), 300 * kKiB);
    EXPECT_TRUE(fits.ok()) << fits.status();
    (*first)->Close();
    (*second)->Close();
  }
  KCACHE_EXPECT_OK((*daemon)->Stop());
}

TEST_F(Memory, ZeroBytesAreRefused) { EXPECT_FALSE(client().Allocate(device(), 0).ok()); }

TEST_F(Memory, OneByteBuffers) {
  std::vector<Buffer> buffers;
  for (uint8_t i = 0; i < 50; ++i) {
    buffers.push_back(AllocateWith(std::vector<uint8_t>(1, i)));
  }
  for (uint8_t i = 0; i < 50; ++i) {
    EXPECT_EQ(Contents<uint8_t>(buffers[i], 1)[0], i);
  }
}

TEST_F(Memory, ReleasedBuffersServeWhatWasQueued) {
  const Kernel increment = Acquire(Role::kIncrement);
  ASSERT_FALSE(increment.empty());
  Buffer out = Allocate(256);
  for (int i = 0; i < 50; ++i) {
    Buffer scratch = AllocateWith(std::vector<uint32_t>(64, static_cast<uint32_t>(i)));
    KCACHE_ASSERT_OK(increment.Launch(queue(), Linear(1), scratch));
    KCACHE_ASSERT_OK(out.CopyFrom(queue(), 0, scratch, 0, 256));
    // `scratch` goes while all of that may still be on its way.
  }
  EXPECT_THAT(Contents<uint32_t>(out, 64), ::testing::Each(50u));
}

TEST_F(Memory, WhatASessionLeavesIsSwept) {
  // Something of this session keeps the context alive.
  Buffer keep = Allocate(4096);
  const Admin admin(Suite::Get().daemon().admin_socket());
  KCACHE_ASSERT_OK(queue().Synchronize());
  auto other = Connect(Suite::Get().daemon(), "careless");
  ASSERT_TRUE(other.ok()) << other.status();
  std::vector<Buffer> left;
  for (int i = 0; i < 10; ++i) {
    auto buffer = (*other)->Allocate(device(), 1 << 20);
    ASSERT_TRUE(buffer.ok()) << buffer.status();
    left.push_back(*std::move(buffer));
  }
  (*other)->Close();
  // The context still works, and what the other had is nobody's.
  std::vector<std::byte> data(16);
  EXPECT_FALSE(left[0].Read(queue(), 0, data).ok());
  RunVectorAdd(client(), device(), 100);
}

TEST_F(Memory, ScratchGrowsAndIsShared) {
  auto small = client().Scratch(device(), "workspace", 1000);
  ASSERT_TRUE(small.ok()) << small.status();
  EXPECT_GE(small->bytes(), 1000u);
  auto large = client().Scratch(device(), "workspace", 1 << 20);
  ASSERT_TRUE(large.ok()) << large.status();
  EXPECT_GE(large->bytes(), uint64_t{1} << 20);
  const Kernel increment = Acquire(Role::kIncrement);
  KCACHE_EXPECT_OK(increment.Launch(queue(), Linear(1), *large));
  KCACHE_EXPECT_OK(queue().Synchronize());
}

TEST_F(Memory, CountsOnceANode) {
  const std::string key = "route " + std::to_string(getpid());
  auto other = Connect(Suite::Get().daemon());
  ASSERT_TRUE(other.ok()) << other.status();
  // A context has to be there for both.
  Buffer keep = Allocate(16);
  int yes = 0;
  for (int i = 0; i < 5; ++i) {
    for (Client* one : {&client(), other->get()}) {
      auto answer = one->FirstN(device(), key, 3);
      ASSERT_TRUE(answer.ok()) << answer.status();
      yes += *answer ? 1 : 0;
    }
  }
  EXPECT_EQ(yes, 3);
}

}  // namespace
}  // namespace kcache::conformance
