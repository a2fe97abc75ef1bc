#include "daemon/store/memory_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "contract/error_reason.h"

namespace kcache::store {
namespace {

core::ArtifactPtr Make(const std::string& name, size_t bytes) {
  auto artifact = std::make_shared<core::StoredArtifact>();
  artifact->key = Digest::Of(name);
  artifact->artifact.set_binary(std::string(bytes, 'b'));
  artifact->bytes = bytes;
  return artifact;
}

bool Has(MemoryArtifactStore& store, const std::string& name) {
  bool found = false;
  for (const auto& artifact : store.List()) found = found || artifact->key == Digest::Of(name);
  return found;
}

TEST(MemoryStoreTest, TheLeastRecentlyUsedGoesFirst) {
  MemoryArtifactStore store(3 * 1100, 100);
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(store.Put(Make(name, 1000)).ok());
  EXPECT_NE(store.Peek(Digest::Of("a")), nullptr);
  ASSERT_TRUE(store.Put(Make("d", 1000)).ok());
  EXPECT_TRUE(Has(store, "a"));
  EXPECT_FALSE(Has(store, "b"));
  EXPECT_TRUE(Has(store, "c"));
  EXPECT_EQ(store.count(), 3u);
  EXPECT_LE(store.bytes(), 3300u);
}

TEST(MemoryStoreTest, CountIsBoundedToo) {
  MemoryArtifactStore store(1 << 20, 2);
  for (const char* name : {"a", "b", "c"}) ASSERT_TRUE(store.Put(Make(name, 10)).ok());
  EXPECT_EQ(store.count(), 2u);
  EXPECT_FALSE(Has(store, "a"));
}

// S29: prewarm exceeds the limit.
TEST(MemoryStoreTest, S29WhatIsHeldStays) {
  MemoryArtifactStore store(2 * 1100, 100);
  ASSERT_TRUE(store.Put(Make("held", 1000)).ok());
  const core::ArtifactPtr held = store.Peek(Digest::Of("held"));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(store.Put(Make(std::to_string(i), 1000)).ok());
  EXPECT_EQ(store.Peek(Digest::Of("held")), held);
  EXPECT_LE(store.bytes(), 2200u);
}

TEST(MemoryStoreTest, WhenEverythingIsHeldNothingIsEvictedAndTheLimitIsNamed) {
  MemoryArtifactStore store(2200, 100);
  ASSERT_TRUE(store.Put(Make("a", 1000)).ok());
  ASSERT_TRUE(store.Put(Make("b", 1000)).ok());
  const core::ArtifactPtr a = store.Peek(Digest::Of("a"));
  const core::ArtifactPtr b = store.Peek(Digest::Of("b"));
  const absl::Status full = store.Put(Make("c", 1000));
  EXPECT_EQ(ReasonOf(full), v1::LIMIT_EXCEEDED);
  EXPECT_EQ(DetailsOf(full).at("limit"), "store.max_bytes");
  EXPECT_EQ(store.count(), 2u);
}

TEST(MemoryStoreTest, LargerThanTheStoreCostsNobodyAnEntry) {
  MemoryArtifactStore store(2200, 100);
  ASSERT_TRUE(store.Put(Make("a", 1000)).ok());
  EXPECT_EQ(ReasonOf(store.Put(Make("big", 5000))), v1::LIMIT_EXCEEDED);
  EXPECT_TRUE(Has(store, "a"));
}

TEST(MemoryStoreTest, PuttingAKeyAgainReplacesIt) {
  MemoryArtifactStore store(1 << 20, 100);
  ASSERT_TRUE(store.Put(Make("a", 1000)).ok());
  const uint64_t bytes = store.bytes();
  ASSERT_TRUE(store.Put(Make("a", 1000)).ok());
  EXPECT_EQ(store.count(), 1u);
  EXPECT_EQ(store.bytes(), bytes);
}

TEST(MemoryStoreTest, RemovedAndClearedIsAMissButWhatIsHeldLives) {
  MemoryArtifactStore store(1 << 20, 100);
  ASSERT_TRUE(store.Put(Make("a", 1000)).ok());
  const core::ArtifactPtr held = store.Peek(Digest::Of("a"));
  store.Remove(Digest::Of("a"));
  bool missed = false;
  store.Get(Digest::Of("a"), [&](core::ArtifactPtr found) { missed = found == nullptr; });
  EXPECT_TRUE(missed);
  EXPECT_EQ(held->bytes, 1000u);
  ASSERT_TRUE(store.Put(Make("b", 10)).ok());
  store.Clear();
  EXPECT_EQ(store.count(), 0u);
  EXPECT_EQ(store.bytes(), 0u);
}

}  // namespace
}  // namespace kcache::store
