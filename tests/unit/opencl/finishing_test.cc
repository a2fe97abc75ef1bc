// Compiling is finished in the compile role: a fresh process launches without compiling.

#include "tests/unit/opencl/fixture.h"

namespace kcache::backend::opencl {
namespace {

constexpr char kTwoKernels[] = R"(
  kernel void twice(global float* a) { a[get_global_id(0)] *= 2.0f; }
  kernel void sum(global float* a, global const float* b) { a[get_global_id(0)] += b[get_global_id(0)]; }
)";

// Beyond 65535 work-items in a dimension PoCL looks for another work-group function.
const std::vector<uint32_t> kSmallAndLargeGrid{1, 3, 4096};

class FinishingTest : public OpenClTest {};

TEST_F(FinishingTest, RequestedLocalSizesNeedNoCompilingInAFreshProcess) {
  v1::CompileRequest request = Source(kTwoKernels);
  for (const uint32_t x : {32U, 128U}) {
    v1::LaunchShape* shape = request.mutable_manifest()->add_launch_shapes();
    shape->set_entry("sum");
    shape->mutable_local_size()->set_x(x);
    shape->mutable_local_size()->set_y(1);
    shape->mutable_local_size()->set_z(1);
  }
  const v1::Artifact artifact = MustCompile(request);
  EXPECT_EQ(artifact.kernels(0).finished_local_sizes_size(), 2);
  EXPECT_EQ(CompiledInFreshProcess(artifact, "sum", {32, 1, 1}, kSmallAndLargeGrid), 0);
  EXPECT_EQ(CompiledInFreshProcess(artifact, "sum", {128, 1, 1}, kSmallAndLargeGrid), 0);
  // The check itself sees a compile when there is one.
  EXPECT_GE(CompiledInFreshProcess(artifact, "sum", {16, 1, 1}, {1}), 1);
}

TEST_F(FinishingTest, WithoutRequestEveryKernelIsFinishedForTheDefault) {
  const v1::Artifact artifact = MustCompile(Source(kTwoKernels));
  ASSERT_EQ(artifact.kernels_size(), 2);
  for (const v1::KernelInfo& kernel : artifact.kernels()) {
    ASSERT_EQ(kernel.finished_local_sizes_size(), 1) << kernel.entry();
    const v1::Dim3& size = kernel.finished_local_sizes(0);
    EXPECT_EQ(CompiledInFreshProcess(artifact, kernel.entry(), {size.x(), size.y(), size.z()},
                                     kSmallAndLargeGrid),
              0);
  }
}

TEST_F(FinishingTest, RequiredAndHintedLocalSizesAreFinished) {
  const v1::Artifact artifact = MustCompile(Source(R"(
    kernel __attribute__((reqd_work_group_size(8, 2, 1))) void fixed(global int* a) { a[get_local_id(1)] = 1; }
    kernel __attribute__((work_group_size_hint(48, 1, 1))) void hinted(global int* a) { a[get_local_id(0)] = 1; }
  )"));
  EXPECT_EQ(CompiledInFreshProcess(artifact, "fixed", {8, 2, 1}, {1, 2}), 0);
  EXPECT_EQ(CompiledInFreshProcess(artifact, "hinted", {48, 1, 1}, {1, 2}), 0);
}

TEST_F(FinishingTest, AWorkerFinishesItsSecondProgramAsWellAsItsFirst) {
  for (const uint32_t x : {16U, 24U}) {
    v1::CompileRequest request = Source(kTwoKernels);
    v1::LaunchShape* shape = request.mutable_manifest()->add_launch_shapes();
    shape->mutable_local_size()->set_x(x);
    shape->mutable_local_size()->set_y(1);
    shape->mutable_local_size()->set_z(1);
    EXPECT_EQ(CompiledInFreshProcess(MustCompile(request), "sum", {x, 1, 1}, {1}), 0) << x;
  }
}

TEST_F(FinishingTest, ALaunchShapeOfAnUnknownKernelNamesThoseThatExist) {
  v1::CompileRequest request = Source(kTwoKernels);
  v1::LaunchShape* shape = request.mutable_manifest()->add_launch_shapes();
  shape->set_entry("thrice");
  shape->mutable_local_size()->set_x(1);
  shape->mutable_local_size()->set_y(1);
  shape->mutable_local_size()->set_z(1);
  const absl::Status status = Compile(request).status();
  EXPECT_EQ(ReasonOf(status), v1::UNKNOWN_ENTRY);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("sum, twice"));
}

TEST_F(FinishingTest, AnImpossibleLaunchShapeNamesTheLimit) {
  v1::CompileRequest request = Source(kTwoKernels);
  v1::LaunchShape* shape = request.mutable_manifest()->add_launch_shapes();
  shape->mutable_local_size()->set_x(1U << 20);
  shape->mutable_local_size()->set_y(1);
  shape->mutable_local_size()->set_z(1);
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::INVALID_LAUNCH);
}

}  // namespace
}  // namespace kcache::backend::opencl
