#include "backends/hip/architecture_trial.h"
#include "backends/hip/hip_family.h"
#include "backends/hip/hiprtc_compiler.h"
#include "backends/sdk/driver.h"

int main(int argc, char** argv) {
  using namespace kcache::backend;  // NOLINT(google-build-using-namespace): main names them all
  if (const auto architecture = hip::RequestedTrial(argc, argv)) {
    return hip::CompileEmptyKernel(*architecture);
  }
  return BackendMain(argc, argv, hip::MakeHipFamily());
}
