#include "daemon/workers/backend_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <csignal>
#include <cstdlib>

#include "daemon/workers/exit_status.h"
#include "daemon/workers/library_path.h"
#include "daemon/workers/prober.h"
#include "temporary_directory.h"

namespace kcache::workers {
namespace {

using testing::HasSubstr;

void WriteProgram(const TemporaryDirectory& directory, const std::string& name, mode_t mode = 0755) {
  chmod(directory.Write(name, "#!/bin/sh\n").c_str(), mode);
}

TEST(BackendProgramsTest, TheFirstDirectoryWinsAndOnlyProgramsCount) {
  TemporaryDirectory directory;
  WriteProgram(directory, "first/kcache-backend-opencl");
  WriteProgram(directory, "second/kcache-backend-opencl");
  WriteProgram(directory, "second/kcache-backend-mine");
  WriteProgram(directory, "second/kcache-backend-notes.txt");
  WriteProgram(directory, "second/kcache-backend-data", 0644);
  WriteProgram(directory, "second/other");
  const auto programs =
      FindBackendPrograms({directory / "first", directory / "missing", directory / "second"});
  ASSERT_EQ(programs.size(), 2u);
  EXPECT_EQ(programs[0].family, "OpenCL");
  EXPECT_EQ(programs[0].path, directory / "first/kcache-backend-opencl");
  EXPECT_EQ(programs[1].family, "mine");
}

TEST(BackendProgramsTest, NothingOfTheServicesEnvironmentPassesButWhatMakesDevicesVisible) {
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);
  setenv("LD_PRELOAD_LOOKALIKE", "evil", 1);
  setenv("POCL_EXTRA_BUILD_FLAGS", "-DX", 1);
  setenv("MINE", "yes", 1);
  const auto environment = BackendEnvironment("/private", {"MINE"}, {"CUDA_VISIBLE_DEVICES=GPU-x"});
  EXPECT_THAT(environment, testing::Contains("CUDA_VISIBLE_DEVICES=GPU-x"));
  EXPECT_THAT(environment, testing::Contains("MINE=yes"));
  EXPECT_THAT(environment, testing::Contains("HOME=/private"));
  EXPECT_THAT(environment, testing::Contains("TMPDIR=/private"));
  EXPECT_THAT(environment, testing::Contains("LC_ALL=C.UTF-8"));
  for (const std::string& variable : environment) {
    EXPECT_THAT(variable, testing::Not(testing::StartsWith("LD_PRELOAD")));
    EXPECT_THAT(variable, testing::Not(testing::StartsWith("POCL_EXTRA")));
  }
}

// Programs that travel with their libraries (tests/gpu/bundle.sh) name them relative to themselves.
TEST(LibraryPathTest, ReadsWhatTheLinkerWroteIntoTheProgram) {
  if (std::system("command -v cc >/dev/null 2>&1") != 0) GTEST_SKIP() << "no C compiler here";
  TemporaryDirectory directory;
  const std::string source = directory.Write("bin/main.c", "int main(void) { return 0; }\n");
  const std::string program = directory / "bin/program";
  const std::string build = "cc -o " + program + " " + source +
                            " -Wl,-rpath,'$ORIGIN/../lib' -Wl,-rpath,/opt/x -Wl,-rpath,relative";
  ASSERT_EQ(std::system(build.c_str()), 0);
  EXPECT_THAT(LibraryDirectories(program), testing::ElementsAre(directory / "lib", "/opt/x"));
}

TEST(LibraryPathTest, WhatIsNoProgramNamesNothing) {
  TemporaryDirectory directory;
  EXPECT_TRUE(LibraryDirectories(directory / "missing").empty());
  EXPECT_TRUE(LibraryDirectories(directory.Write("script", "#!/bin/sh\n")).empty());
  EXPECT_TRUE(LibraryDirectories(directory.Write("cut", "\x7f" "ELF\x02\x01")).empty());
}

TEST(BackendProgramsTest, AMissingLauncherNamesWhereItWasLookedFor) {
  const auto missing = LocateLauncher("", "/nonexistent/bin");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(std::string(missing.status().message()), HasSubstr("/nonexistent/bin"));
}

ExitStatus Exited(int code, std::string output, std::string last_words = "") {
  ExitStatus status;
  status.verified = true;
  status.code = code;
  status.output = std::move(output);
  status.last_words = std::move(last_words);
  return status;
}

TEST(ProbeReportTest, AGoodReportIsTakenAndUnknownFieldsAreIgnored) {
  const auto report = ReportOf("CUDA", Exited(0, R"({"family":"CUDA","available":true,"newer":1})"),
                               false, absl::Seconds(1));
  EXPECT_TRUE(report.available()) << report.reason();
}

TEST(ProbeReportTest, EveryOtherEndIsUnavailableWithTheReason) {
  const auto reason = [](const ExitStatus& status, bool timed_out = false) {
    const auto report = ReportOf("CUDA", status, timed_out, absl::Seconds(3));
    EXPECT_FALSE(report.available());
    EXPECT_EQ(report.family(), "CUDA");
    return report.reason();
  };
  ExitStatus crashed = Exited(0, "", "driver: cannot\nopen");
  crashed.signal = SIGSEGV;
  EXPECT_THAT(reason(crashed), HasSubstr("killed by SIGSEGV; last words: driver: cannot | open"));
  EXPECT_THAT(reason(Exited(3, "")), HasSubstr("exited with 3"));
  EXPECT_THAT(reason(Exited(0, "not json")), HasSubstr("printed no report"));
  EXPECT_THAT(reason(Exited(0, ""), true), HasSubstr("3s"));
  EXPECT_THAT(reason(Exited(0, R"({"family":"a b"})")), HasSubstr("\"a b\""));
}

TEST(ExitStatusTest, LastWordsAreOneBoundedLineOfUtf8) {
  EXPECT_EQ(LastWords(""), "");
  EXPECT_EQ(LastWords("\n \n"), "");
  EXPECT_EQ(LastWords("a\x01\nb\n"), "; last words: a | b");
  EXPECT_LT(LastWords(std::string(5000, 'x')).size(), 700u);
  EXPECT_EQ(SignalName(SIGABRT), "SIGABRT");
}

}  // namespace
}  // namespace kcache::workers
