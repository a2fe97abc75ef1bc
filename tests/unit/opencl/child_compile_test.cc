// A compile in a process of its own: what its end means for the worker.

#include <sys/resource.h>

#include <csignal>

#include "backends/opencl/private_directory.h"
#include "tests/unit/opencl/fixture.h"

namespace kcache::backend::opencl {
namespace {

class ChildCompileTest : public OpenClTest {};

TEST_F(ChildCompileTest, AWorkerDiesAsItsCompilerDoes) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  std::string source;
  for (int i = 0; i < 200; ++i) {
    source += "kernel void k" + std::to_string(i) +
              "(global float* a) { a[get_global_id(0)] = sin(a[get_global_id(0)]); }\n";
  }
  const v1::CompileRequest request = Source(source);
  // What the dying worker leaves goes with this directory.
  absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make("kcache-test-");
  ASSERT_TRUE(directory.ok());
  setenv("TMPDIR", directory->path().c_str(), 1);
  // Counts per process: the worker itself only waits.
  rlimit one_second;
  one_second.rlim_cur = one_second.rlim_max = 1;
  const auto compile = [&] {
    TheBackend();
    setrlimit(RLIMIT_CPU, &one_second);
    Compile(request).IgnoreError();
  };
  EXPECT_EXIT(compile(), ::testing::KilledBySignal(SIGKILL), "");
  unsetenv("TMPDIR");
}

}  // namespace
}  // namespace kcache::backend::opencl
