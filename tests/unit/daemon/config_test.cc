#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>

#include "daemon/ops/config_load.h"
#include "daemon/ops/config_options.h"
#include "temporary_directory.h"

namespace kcache::ops {
namespace {

using testing::HasSubstr;

class ConfigTest : public testing::Test {
 protected:
  absl::StatusOr<Config> Load(const std::string& text) {
    ConfigSources sources;
    sources.file = directory_.Write("kcached.toml", text);
    sources.flags = flags_;
    sources.environment = [this](const std::string& name) -> std::optional<std::string> {
      const auto found = environment_.find(name);
      if (found == environment_.end()) return std::nullopt;
      return found->second;
    };
    return LoadConfig(sources);
  }
  std::string FailureOf(const std::string& text) {
    const auto config = Load(text);
    return config.ok() ? "none" : std::string(config.status().message());
  }

  TemporaryDirectory directory_;
  std::map<std::string, std::string> environment_;
  std::vector<std::pair<std::string, std::string>> flags_;
};

TEST_F(ConfigTest, ReadsEveryType) {
  const auto config = Load(R"(
socket = "/tmp/a.sock"
socket_mode = "0600"
[backends]
directories = ["/a", "/b"]
[compile]
workers = 3
memory = "256MiB"
wall_time = "90s"
[isolation]
domain = "session"
share_artifacts = false
)");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->socket, "/tmp/a.sock");
  EXPECT_EQ(config->socket_mode, 0600u);
  EXPECT_THAT(config->backend_directories, testing::ElementsAre("/a", "/b"));
  EXPECT_EQ(config->compile_workers, 3u);
  EXPECT_EQ(config->compile_memory, 256ull << 20);
  EXPECT_EQ(config->compile_wall, absl::Seconds(90));
  EXPECT_EQ(config->core.domain_policy, core::DomainPolicy::kSession);
  EXPECT_FALSE(config->core.share_artifacts);
}

TEST_F(ConfigTest, FlagsWinOverTheEnvironmentAndThatOverTheFile) {
  environment_ = {{"KCACHED_LIMITS_MAX_SESSIONS", "20"}, {"KCACHED_COMPILE_WORKERS", "2"}};
  flags_ = {{"limits.max-sessions", "30"}};
  const auto config = Load("[limits]\nmax_sessions = 10\n[compile]\nworkers = 1\n");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->core.limits.max_sessions, 30u);
  EXPECT_EQ(config->compile_workers, 2u);
}

TEST_F(ConfigTest, TheClientsVariablesNameTheSockets) {
  environment_ = {{"KCACHE_SOCKET", "/x/c.sock"}, {"KCACHE_ADMIN_SOCKET", "/x/a.sock"}};
  const auto config = Load("");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->socket, "/x/c.sock");
  EXPECT_EQ(config->admin_socket, "/x/a.sock");
}

TEST_F(ConfigTest, SocketsFollowTheRuntimeDirectory) {
  flags_ = {{"runtime_dir", "/x"}};
  const auto config = Load("");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->socket, "/x/kcached.sock");
  EXPECT_EQ(config->admin_socket, "/x/admin.sock");
  EXPECT_EQ(config->state_dir, "/x");
}

TEST_F(ConfigTest, AFailureNamesFileLineKeyAndValue) {
  const std::string failure = FailureOf("\n[limits]\nmax_sessions = 0\n");
  EXPECT_THAT(failure, HasSubstr("kcached.toml:3"));
  EXPECT_THAT(failure, HasSubstr("limits.max_sessions"));
  EXPECT_THAT(failure, HasSubstr("\"0\""));
  EXPECT_THAT(failure, HasSubstr("1 … 1048576"));
}

TEST_F(ConfigTest, AnUnknownKeyNamesTheNearestOne) {
  EXPECT_THAT(FailureOf("[limits]\nmax_session = 1\n"), HasSubstr("limits.max_sessions"));
  EXPECT_THAT(FailureOf("[hosts]\ngrace = \"1s\"\n"), HasSubstr("limits.grace"));
  EXPECT_THAT(FailureOf("[nonsense_and_more]\nkey = 1\n"), HasSubstr("there is no option"));
}

TEST_F(ConfigTest, EveryFailureIsReported) {
  environment_ = {{"KCACHED_LOG_LEVEL", "loud"}};
  flags_ = {{"compile.nice", "77"}};
  const std::string failure = FailureOf("socket_mode = \"99\"\n[limits]\ngrace = 2\n");
  EXPECT_THAT(failure, HasSubstr("socket_mode"));
  EXPECT_THAT(failure, HasSubstr("limits.grace"));
  EXPECT_THAT(failure, HasSubstr("environment variable KCACHED_LOG_LEVEL"));
  EXPECT_THAT(failure, HasSubstr("--compile.nice"));
}

TEST_F(ConfigTest, TextThatIsNotTomlNamesItsLine) {
  EXPECT_THAT(FailureOf("socket = \"a\"\n= 3\n"), HasSubstr("kcached.toml:2"));
}

TEST_F(ConfigTest, AFileThatMustExistAndDoesNot) {
  ConfigSources sources;
  sources.file = directory_ / "missing.toml";
  const auto missing = LoadConfig(sources);
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("missing.toml"));
  sources.file_must_exist = false;
  EXPECT_TRUE(LoadConfig(sources).ok());
}

TEST_F(ConfigTest, ValuesThatContradictEachOther) {
  EXPECT_THAT(FailureOf("[limits]\ngrace = \"11m\"\n"), HasSubstr("limits.max_grace"));
  EXPECT_THAT(FailureOf("[hosts]\nheartbeat = \"10s\"\nunresponsive = \"15s\"\n"),
              HasSubstr("hosts.heartbeat"));
}

// Every option: printed values are read back as they were, so what --print-config shows is the truth.
TEST_F(ConfigTest, WhatIsPrintedIsReadBackAlike) {
  const auto first = Load("[limits]\ngrace = \"1500ms\"\nmax_source_bytes = \"3MiB\"\n");
  ASSERT_TRUE(first.ok()) << first.status();
  const std::string printed = PrintConfig(*first, /*defaults_only=*/false);
  const auto second = Load(printed);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(PrintConfig(*second, false), printed);
}

TEST_F(ConfigTest, EveryOptionHasHelpADefaultInItsRangeAndItsOwnNames) {
  std::set<std::string> names;
  for (const Option& option : Options()) {
    SCOPED_TRACE(option.name);
    EXPECT_FALSE(option.help.empty());
    Config config;
    EXPECT_TRUE(option.set(config, option.get(Config())).ok());
    EXPECT_TRUE(names.insert(EnvironmentName(option)).second);
    EXPECT_EQ(FindOption(option.name), &option);
  }
}

TEST_F(ConfigTest, TheShippedFileIsTheTable) {
  const char* source = std::getenv("KCACHE_SOURCE_DIR");
  ASSERT_NE(source, nullptr);
  EXPECT_EQ(ReadText(std::string(source) + "/deploy/config/kcached.toml"),
            PrintConfig(Config(), /*defaults_only=*/true))
      << "write it anew: kcached --print-default-config > deploy/config/kcached.toml";
}

}  // namespace
}  // namespace kcache::ops
