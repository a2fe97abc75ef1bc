#include "daemon/ops/runtime_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "temporary_directory.h"

namespace kcache::ops {
namespace {

TEST(RuntimeDirectoryTest, ASecondDaemonIsToldWhoServes) {
  TemporaryDirectory temporary;
  Config config;
  config.runtime_dir = temporary / "run";
  CompletePaths(&config);
  {
    const auto first = RuntimeDirectory::Open(config);
    ASSERT_TRUE(first.ok()) << first.status();
    const auto second = RuntimeDirectory::Open(config);
    ASSERT_FALSE(second.ok());
    EXPECT_THAT(std::string(second.status().message()),
                testing::HasSubstr("another kcached (pid " + std::to_string(getpid()) + ")"));
  }
  EXPECT_TRUE(RuntimeDirectory::Open(config).ok());
}

TEST(RuntimeDirectoryTest, WhatAnEarlierDaemonLeftIsRemoved) {
  TemporaryDirectory temporary;
  Config config;
  config.runtime_dir = temporary / "run";
  CompletePaths(&config);
  temporary.Write("run/work/compile-x/file", "x");
  temporary.Write("run/exec/7.sock", "x");
  temporary.Write("run/kept", "x");
  ASSERT_TRUE(RuntimeDirectory::Open(config).ok());
  EXPECT_TRUE(std::filesystem::is_empty(temporary / "run/work"));
  EXPECT_TRUE(std::filesystem::is_empty(temporary / "run/exec"));
  EXPECT_TRUE(std::filesystem::exists(temporary / "run/kept"));
}

// A compile worker that was killed at the stop left its private directory behind.
TEST(RuntimeDirectoryTest, NothingOfAnyProcessStaysAtTheStop) {
  TemporaryDirectory temporary;
  Config config;
  config.runtime_dir = temporary / "run";
  CompletePaths(&config);
  const auto directory = RuntimeDirectory::Open(config);
  ASSERT_TRUE(directory.ok());
  temporary.Write("run/work/compile-x/file", "x");
  temporary.Write("run/exec/7.sock", "x");
  directory->Empty();
  EXPECT_TRUE(std::filesystem::is_empty(temporary / "run/work"));
  EXPECT_TRUE(std::filesystem::is_empty(temporary / "run/exec"));
}

TEST(RuntimeDirectoryTest, ADirectoryThatCannotBeMadeIsNamed) {
  Config config;
  config.runtime_dir = "/proc/kcached";
  CompletePaths(&config);
  const auto opened = RuntimeDirectory::Open(config);
  ASSERT_FALSE(opened.ok());
  EXPECT_THAT(std::string(opened.status().message()), testing::HasSubstr("/proc/kcached"));
}

}  // namespace
}  // namespace kcache::ops
