#include "daemon/ops/state_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/ops/event_log.h"
#include "temporary_directory.h"

namespace kcache::ops {
namespace {

core::DurableState Down() {
  core::DurableState state;
  state.down["CUDA:0"] = "an operator: reset, \"slot 3\"\nsecond line";
  state.down["OpenCL:1"] = "";
  return state;
}

TEST(StateFileTest, WhatIsSavedIsLoaded) {
  TemporaryDirectory directory;
  EventLog events(16);
  StateFile file(directory.path(), &events);
  EXPECT_TRUE(file.Load().down.empty());
  ASSERT_TRUE(file.Save(Down()).ok());
  EXPECT_EQ(file.Load().down, Down().down);
  ASSERT_TRUE(file.Save({}).ok());
  EXPECT_TRUE(file.Load().down.empty());
}

// Power loss and foreign hands: every cut and every changed byte is noticed.
TEST(StateFileTest, EveryDamageIsNoticed) {
  const std::string good = EncodeState(Down());
  ASSERT_TRUE(DecodeState(good).ok());
  for (size_t length = 0; length < good.size(); ++length) {
    EXPECT_FALSE(DecodeState(good.substr(0, length)).ok()) << length;
  }
  for (size_t i = 0; i < good.size(); ++i) {
    std::string bad = good;
    bad[i] = static_cast<char>(bad[i] ^ 1);
    EXPECT_FALSE(DecodeState(bad).ok()) << i;
  }
}

TEST(StateFileTest, ADamagedFileIsMovedAsideAndReported) {
  TemporaryDirectory directory;
  EventLog events(16);
  const std::string file = directory.Write("state", "garbage");
  EXPECT_TRUE(StateFile(directory.path(), &events).Load().down.empty());
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_EQ(ReadText(file + ".damaged"), "garbage");
  ASSERT_EQ(events.Read(0, 10).size(), 1u);
  EXPECT_EQ(events.Read(0, 10)[0].kind(), "state-quarantined");
}

TEST(StateFileTest, ADirectoryThatIsNotThereIsAFailureThatNamesIt) {
  EventLog events(16);
  const absl::Status saved = StateFile("/nonexistent/kcached", &events).Save(Down());
  ASSERT_FALSE(saved.ok());
  EXPECT_THAT(std::string(saved.message()), testing::HasSubstr("/nonexistent/kcached"));
}

}  // namespace
}  // namespace kcache::ops
