// The test program, which also serves as the fresh process of CompiledInFreshProcess and, as the
// backend program does, as the process that compiles one program.

#include <gtest/gtest.h>

#include <cstring>

#include "backends/opencl/child_compile.h"
#include "tests/unit/opencl/fixture.h"

int main(int argc, char** argv) {
  if (argc > 1 && std::strcmp(argv[1], "--launch") == 0) {
    const int code = kcache::backend::opencl::RunFreshProcess(argc, argv);
    kcache::backend::opencl::ReleaseBackend();
    return code;
  }
  if (kcache::backend::opencl::IsCompileChild(argc, argv)) {
    return kcache::backend::opencl::RunCompileChild(argv);
  }
  ::testing::InitGoogleTest(&argc, argv);
  const int code = RUN_ALL_TESTS();
  kcache::backend::opencl::ReleaseBackend();
  return code;
}
