#include "tests/integration/domains/users.h"

#include <grp.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

namespace kcache::domains {
namespace {

constexpr uid_t kNobody = 65534;
constexpr int kCannotReach = 77;

std::string Kcached() {
  const char* directory = std::getenv("KCACHE_BINARY_DIR");
  return std::string(directory == nullptr ? "." : directory) + "/daemon/kcached";
}

// Runs this program again as nobody, with this test alone.
int RunAsNobody(const std::string& test) {
  const std::string filter = "--gtest_filter=" + test;
  const std::string kcached = Kcached();
  const pid_t pid = fork();
  if (pid == 0) {
    if (setgroups(0, nullptr) != 0 || setresgid(kNobody, kNobody, kNobody) != 0 ||
        setresuid(kNobody, kNobody, kNobody) != 0) {
      _exit(1);
    }
    if (access(kcached.c_str(), X_OK) != 0) _exit(kCannotReach);
    setenv("HOME", "/tmp", 1);
    unsetenv("GTEST_OUTPUT");  // the report is this process's
    unsetenv("XDG_RUNTIME_DIR");
    // The link leads to the program whatever its directories allow.
    execl("/proc/self/exe", "integration_domains_test", filter.c_str(), nullptr);
    _exit(127);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

bool AsUser::Plays() {
  const bool is_root = geteuid() == 0;
  if (GetParam() == As::kRoot) {
    if (is_root) return true;
    [] { GTEST_SKIP() << "only root can be two users; this is uid " << geteuid(); }();
    return false;
  }
  if (!is_root) return true;
  const ::testing::TestInfo* info = ::testing::UnitTest::GetInstance()->current_test_info();
  const int status = RunAsNobody(std::string(info->test_suite_name()) + "." + info->name());
  if (status == kCannotReach) {
    [] { GTEST_SKIP() << "uid 65534 cannot reach the programs of this build: " << Kcached(); }();
    return false;
  }
  EXPECT_EQ(status, 0) << "as uid 65534; see above";
  return false;
}

}  // namespace kcache::domains
