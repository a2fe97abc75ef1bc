#include "daemon/workers/driver_cache.h"

#include <gmock/gmock.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "daemon/ops/config.h"
#include "daemon/workers/isolation.h"
#include "tests/unit/daemon/process_fixture.h"
#include "tests/unit/daemon/temporary_directory.h"

namespace kcache::workers {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class DriverCacheTest : public ::testing::Test {
 protected:
  DriverCacheOwner Owner(const std::string& domain, const std::string& version = "580.95") {
    return {.family = "OpenCL", .driver_version = version, .domain = domain, .uid = 1000};
  }
  std::string Prepare(const DriverCacheOwner& owner) {
    absl::StatusOr<std::string> path = PrepareDriverCache(state_.path(), owner, std::nullopt);
    EXPECT_TRUE(path.ok()) << path.status();
    return path.value_or("");
  }

  TemporaryDirectory state_;
};

TEST_F(DriverCacheTest, ThePathSaysFamilyVersionAndUserAndTellsDomainsApart) {
  const std::string path = DriverCachePath("/state", Owner("uid:1000"));
  EXPECT_THAT(path, StartsWith("/state/driver-cache/OpenCL-580.95/1000-"));
  EXPECT_EQ(path, DriverCachePath("/state", Owner("uid:1000")));
  // One uid in two containers is two domains.
  EXPECT_NE(path, DriverCachePath("/state", Owner("uid:1000/container")));
  EXPECT_NE(path, DriverCachePath("/state", Owner("uid:1000", "581.0")));
}

TEST_F(DriverCacheTest, NoNameLeavesTheDirectory) {
  const std::string path = DriverCachePath("/state", Owner("../../x", "1 (CUDA)/../..\n"));
  EXPECT_THAT(path, StartsWith("/state/driver-cache/OpenCL-1--CUDA--..-..-/1000-"));
  EXPECT_EQ(std::count(path.begin(), path.end(), '/'), 4);
}

TEST_F(DriverCacheTest, ItIsItsOwnersAloneAndStays) {
  const std::string path = Prepare(Owner("a"));
  struct stat info {};
  ASSERT_EQ(stat(path.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0700u);
  state_.Write(path.substr(state_.path().size() + 1) + "/compiled", "x");
  EXPECT_EQ(Prepare(Owner("a")), path);
  EXPECT_NE(Prepare(Owner("b")), path);
  EXPECT_TRUE(fs::exists(path + "/compiled"));
}

TEST_F(DriverCacheTest, AnotherDriverVersionsAreRemoved) {
  const std::string old = Prepare(Owner("a"));
  DriverCacheOwner other = Owner("a");
  other.family = "Other";
  const std::string others = Prepare(other);
  const std::string now = Prepare(Owner("a", "581.0"));
  EXPECT_FALSE(fs::exists(old));
  EXPECT_TRUE(fs::exists(others));
  EXPECT_TRUE(fs::exists(now));
}

TEST_F(DriverCacheTest, TheLeastRecentlyUsedGoFirst) {
  const std::string first = Prepare(Owner("first"));
  const std::string second = Prepare(Owner("second"));
  // Long ago, in this order; file systems' times are too coarse to tell calls apart.
  const timespec long_ago[2][2] = {{{100, 0}, {100, 0}}, {{200, 0}, {200, 0}}};
  ASSERT_EQ(utimensat(AT_FDCWD, first.c_str(), long_ago[0], 0), 0);
  ASSERT_EQ(utimensat(AT_FDCWD, second.c_str(), long_ago[1], 0), 0);
  for (size_t i = 2; i < kMostDriverCaches + 1; ++i) Prepare(Owner("domain " + std::to_string(i)));
  EXPECT_FALSE(fs::exists(first));
  EXPECT_TRUE(fs::exists(second));
  // Used again, it is not the oldest any more.
  Prepare(Owner("second"));
  Prepare(Owner("one more"));
  EXPECT_TRUE(fs::exists(second));
}

TEST_F(DriverCacheTest, ALinkInItsPlaceIsNotFollowed) {
  TemporaryDirectory elsewhere;
  fs::create_directory_symlink(elsewhere.path(), state_ / "driver-cache");
  EXPECT_FALSE(PrepareDriverCache(state_.path(), Owner("a"), std::nullopt).ok());
  EXPECT_TRUE(fs::is_empty(elsewhere.path()));
}

TEST_F(DriverCacheTest, OnlyWholeValuesStandForIt) {
  const std::vector<std::string> environment = {"CUDA_CACHE_PATH=@driver-cache@", "A=1",
                                                "B=x@driver-cache@"};
  EXPECT_TRUE(WantsDriverCache(environment));
  EXPECT_FALSE(WantsDriverCache({"A=1", "B=x@driver-cache@"}));
  EXPECT_THAT(WithDriverCache(environment, "/cache"),
              ElementsAre("CUDA_CACHE_PATH=/cache", "A=1", "B=x@driver-cache@"));
  EXPECT_THAT(WithDriverCache(environment, std::nullopt), ElementsAre("A=1", "B=x@driver-cache@"));
}

TEST_F(DriverCacheTest, AHostIsToldOfItAndMayWriteThere) {
  ops::Config config;
  config.state_dir = state_.path();
  Isolation isolation(&config);
  ASSERT_TRUE(
      isolation.ChooseSandbox(Launcher(), state_.path()).ok());
  v1::DeviceInfo device;
  device.add_host_environment("CUDA_CACHE_PATH=@driver-cache@");
  BackendProgram program;
  program.path = "/bin/true";
  LaunchSpec with, without;
  isolation.ForHost(program, state_ / "own", {}, device, state_ / "cache", &with);
  isolation.ForHost(program, state_ / "own", {}, device, std::nullopt, &without);
  EXPECT_THAT(with.environment, Contains("CUDA_CACHE_PATH=" + (state_ / "cache")));
  EXPECT_THAT(without.environment, Not(Contains(HasSubstr("CUDA_CACHE_PATH"))));
  if (isolation.namespaces()) {
    EXPECT_THAT(with.sandbox.write, ElementsAre(state_ / "cache"));
    EXPECT_THAT(without.sandbox.write, ElementsAre());
  }
}

}  // namespace
}  // namespace kcache::workers
