// The HIP backend on a real device, of AMD's or, where it was built in, of NVIDIA's. Skipped, with
// the reason, where there is none.
#include "backends/cudalike/device_suite.h"
#include "backends/hip/architecture_trial.h"
#include "backends/hip/hip_family.h"
#include "backends/hip/hiprtc_compiler.h"

namespace kcache::backend::cudalike {

INSTANTIATE_TEST_SUITE_P(Hip, DeviceSuite,
                         testing::Values(DeviceSuiteParameters{[] { return hip::MakeHipFamily(); },
                                                               "HIP", "hip-c++"}),
                         [](const auto&) { return "CodeObject"; });

}  // namespace kcache::backend::cudalike

int main(int argc, char** argv) {
  if (const auto architecture = kcache::backend::hip::RequestedTrial(argc, argv)) {
    return kcache::backend::hip::CompileEmptyKernel(*architecture);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
