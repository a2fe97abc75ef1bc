// kcache_conformance --backend=NAME [GoogleTest flags]
//
// Runs the suite against one backend through a daemon of its own. Prints what is excluded, with the
// reason, and last `summary: backend=… passed=… failed=… excluded=… allowed=…`. Exit status 0: nothing
// failed, and nothing was skipped that is not excluded; 77: the backend has no device here and
// nothing that can be checked without one.

#include <cstdio>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "tests/conformance/suite.h"

namespace kcache::conformance {
namespace {

constexpr int kUsage = 2;

struct Tally {
  int passed = 0, failed = 0;
  // reason → tests
  std::map<std::string, std::vector<std::string>> excluded;

  int excluded_count() const {
    int count = 0;
    for (const auto& [reason, tests] : excluded) count += static_cast<int>(tests.size());
    return count;
  }
};

class Counter : public ::testing::EmptyTestEventListener {
 public:
  explicit Counter(Tally* tally) : tally_(tally) {}

  void OnTestEnd(const ::testing::TestInfo& info) override {
    const ::testing::TestResult& result = *info.result();
    if (result.Skipped()) {
      std::string reason = "no reason given";
      for (int i = 0; i < result.total_part_count(); ++i) {
        if (result.GetTestPartResult(i).skipped()) reason = result.GetTestPartResult(i).summary();
      }
      // GoogleTest puts the source location or an empty line before the text.
      reason.erase(0, reason.find_first_not_of(" \n"));
      tally_->excluded[reason].push_back(std::string(info.test_suite_name()) + "." + info.name());
    } else if (result.Passed()) {
      ++tally_->passed;
    } else {
      ++tally_->failed;
    }
  }

 private:
  Tally* const tally_;
};

int Run(const Backend& backend) {
  Suite& suite = Suite::Get();
  const absl::Status started = suite.Start(backend);
  if (!started.ok()) {
    std::fprintf(stderr, "%s\n", started.ToString().c_str());
    std::printf("summary: backend=%s passed=0 failed=1 excluded=0 allowed=0\n",
                backend.name.c_str());
    return 1;
  }
  for (const DeviceInfo& device : suite.devices()) {
    std::printf("device %s: %s, %s, %s\n", device.id.ToString().c_str(), device.name.c_str(),
                device.architecture.c_str(), device.driver_version.c_str());
  }
  if (suite.devices().empty()) {
    std::printf("no device: %s; only what needs none runs\n", suite.unavailable().c_str());
  }
  Tally tally;
  ::testing::UnitTest::GetInstance()->listeners().Append(new Counter(&tally));
  const int outcome = RUN_ALL_TESTS();
  const absl::Status stopped = suite.Stop();
  if (!stopped.ok()) {
    std::printf("FAILED to stop cleanly: %s\n", stopped.ToString().c_str());
    ++tally.failed;
  }
  for (const auto& [reason, tests] : tally.excluded) {
    std::printf("excluded, %s:\n  %s\n", reason.c_str(), absl::StrJoin(tests, "\n  ").c_str());
  }
  size_t allowed = 0;
  for (const auto& [reason, tests] : suite.allowed()) {
    allowed += tests.size();
    std::printf("allowed, %s:\n  %s\n", reason.c_str(), absl::StrJoin(tests, "\n  ").c_str());
  }
  std::printf("summary: backend=%s passed=%d failed=%d excluded=%d allowed=%zu\n",
              backend.name.c_str(), tally.passed, tally.failed, tally.excluded_count(), allowed);
  if (outcome != 0 || tally.failed > 0) return 1;
  return tally.passed > 0 ? 0 : 77;
}

}  // namespace
}  // namespace kcache::conformance

int main(int argc, char** argv) {
  ::testing::InitGoogleMock(&argc, argv);
  std::string wanted;
  constexpr char kFlag[] = "--backend=";
  for (int i = 1; i < argc; ++i) {
    if (std::strncmp(argv[i], kFlag, sizeof(kFlag) - 1) == 0) {
      wanted = argv[i] + sizeof(kFlag) - 1;
    } else {
      std::fprintf(stderr, "unknown argument %s\n", argv[i]);
      return kcache::conformance::kUsage;
    }
  }
  std::vector<std::string> names;
  for (const auto& backend : kcache::conformance::AllBackends()) {
    if (backend.name == wanted) return kcache::conformance::Run(backend);
    names.push_back(backend.name);
  }
  std::fprintf(stderr, "usage: kcache_conformance --backend=%s\n",
               absl::StrJoin(names, "|").c_str());
  return kcache::conformance::kUsage;
}
