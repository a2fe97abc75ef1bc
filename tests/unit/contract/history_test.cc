#include "contract/history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

namespace kcache {
namespace {

using ::testing::MatchesRegex;
using ::testing::SizeIs;

class HistoryTest : public ::testing::Test {
 protected:
  HistoryTest() {
    std::string pattern = std::filesystem::temp_directory_path() / "history-XXXXXX";
    close(mkstemp(pattern.data()));
    path_ = pattern;
  }
  ~HistoryTest() override { std::filesystem::remove(path_); }

  std::vector<std::string> Lines() const {
    std::ifstream file(path_);
    std::vector<std::string> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  std::string path_;
};

TEST_F(HistoryTest, ARecordIsALineWithItsTime) {
  const uint64_t before = History::Now();
  History::Open(path_).value()->Record(
      "granted", {{"session", 17u}, {"why", "no reason, 100%\n"}, {"empty", ""}});
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0],
              MatchesRegex("[0-9]+ granted session=17 why=no%20reason,%20100%25%0a empty="));
  EXPECT_GE(std::stoull(lines[0]), before);
  EXPECT_LE(std::stoull(lines[0]), History::Now());
}

TEST_F(HistoryTest, LinesOfManyThreadsAreWholeAndNothingIsOverwritten) {
  auto first = History::Open(path_).value(), second = History::Open(path_).value();
  std::vector<std::thread> threads;
  for (const auto* history : {first.get(), first.get(), second.get()}) {
    threads.emplace_back([history] {
      for (uint64_t i = 0; i < 500; ++i) history->Record("tick", {{"number", i}});
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(1500));
  EXPECT_THAT(lines, ::testing::Each(MatchesRegex("[0-9]+ tick number=[0-9]+")));
}

TEST_F(HistoryTest, AFileThatCannotBeMadeIsNamed) {
  const auto history = History::Open("/nowhere/at/all");
  ASSERT_FALSE(history.ok());
  EXPECT_THAT(std::string(history.status().message()), ::testing::HasSubstr("/nowhere/at/all"));
}

}  // namespace
}  // namespace kcache
