// The CUDA family on a machine that may have neither a GPU nor a toolkit.
#include <gtest/gtest.h>

#include <string>

#include "backends/cuda/cuda_family.h"
#include "contract/error_reason.h"

namespace kcache::backend::cuda {
namespace {

TEST(CudaFamily, AProbeNeverFailsAndSaysWhatIsMissing) {
  const v1::ProbeReport report = MakeCudaFamily()->Probe();
  EXPECT_EQ(report.family(), "CUDA");
  EXPECT_TRUE(report.available() || !report.reason().empty());
  ASSERT_EQ(report.compilers_size(), 2);
  EXPECT_EQ(report.compilers(0).framework(), "CUDA");
  EXPECT_EQ(report.compilers(1).framework(), "CUDA/PTX");
  for (const v1::CompileCapability& compiler : report.compilers()) {
    const bool can_compile = compiler.unavailable().empty();
    EXPECT_EQ(can_compile, compiler.architectures_size() > 0);
    EXPECT_EQ(can_compile, compiler.compiler_fingerprint().size() == 32);
  }
  EXPECT_FALSE(report.compile_profile().needs_device());
  for (const v1::DeviceInfo& device : report.devices()) {
    EXPECT_TRUE(device.uuid().starts_with("GPU-") || device.uuid().starts_with("MIG-"));
    EXPECT_TRUE(device.architecture().starts_with("sm_"));
    EXPECT_GT(device.limits().memory_bytes(), 0U);
    EXPECT_EQ(device.host_environment(0), "CUDA_VISIBLE_DEVICES=" + device.uuid());
  }
}

TEST(CudaFamily, AContextThatCannotBeSaysWhy) {
  ContextOptions options;
  options.index = 1000;
  const absl::Status status = MakeCudaFamily()->OpenContext(options).status();
  EXPECT_TRUE(ReasonOf(status) == v1::UNKNOWN_DEVICE || ReasonOf(status) == v1::BACKEND_UNAVAILABLE)
      << status;
  options.variant = "SASS";
  EXPECT_EQ(ReasonOf(MakeCudaFamily()->OpenContext(options).status()), v1::UNKNOWN_DEVICE);
}

}  // namespace
}  // namespace kcache::backend::cuda
