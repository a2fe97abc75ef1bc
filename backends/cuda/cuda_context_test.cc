// The CUDA backend on a real device. Skipped, with the reason, where there is none.
#include "backends/cuda/cuda_family.h"
#include "backends/cudalike/device_suite.h"

namespace kcache::backend::cudalike {

INSTANTIATE_TEST_SUITE_P(
    Cuda, DeviceSuite,
    testing::Values(DeviceSuiteParameters{cuda::MakeCudaFamily, "CUDA", "cuda-c++"},
                    DeviceSuiteParameters{cuda::MakeCudaFamily, "CUDA/PTX", "cuda-c++"}),
    [](const auto& info) { return info.param.framework == "CUDA" ? "Cubin" : "Ptx"; });

}  // namespace kcache::backend::cudalike
