// What the NVIDIA backends know without a GPU: PTX, cubins, NVRTC's programs, the driver's errors.
// Compiling tests are skipped, with the reason, where there is no NVRTC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "backends/nvidia/cubin.h"
#include "backends/nvidia/device_probe.h"
#include "backends/nvidia/driver_table.h"
#include "backends/nvidia/nvrtc_compiler.h"
#include "backends/nvidia/ptx.h"
#include "backends/nvidia/toolkit.h"
#include "contract/error_reason.h"

namespace kcache::backend::nvidia {
namespace {

using testing::HasSubstr;

TEST(Ptx, EntriesWithTheirParameters) {
  const auto ptx = ReadPtx(R"(
.version 9.0
.target sm_90a, debug
.address_size 64
// .entry comment(
/* .entry comment( */
.func helper(.param .b64 helper_param_0) { ret; }
.visible .entry foo(
	.param .u64 .ptr .global .align 16 foo_param_0,
	.param .u8 foo_param_1,
	.param .align 8 .b8 foo_param_2[20000],
	.param .f32 foo_param_3
)
.maxntid 16, 8, 1
.minnctapersm 2
{ ret; }
.visible .entry bare()
.reqntid 64
{ ret; }
)");
  ASSERT_TRUE(ptx.ok()) << ptx.status();
  EXPECT_EQ(ptx->version, "9.0");
  EXPECT_EQ(ptx->target, "sm_90a");
  ASSERT_EQ(ptx->kernels.size(), 2U);
  const v1::KernelInfo& bare = ptx->kernels[0];
  EXPECT_EQ(bare.lowered_name(), "bare");
  EXPECT_TRUE(bare.arguments_known());
  EXPECT_EQ(bare.arguments_size(), 0);
  EXPECT_EQ(bare.required_local_size().x(), 64U);
  EXPECT_EQ(bare.required_local_size().z(), 1U);
  const v1::KernelInfo& foo = ptx->kernels[1];
  EXPECT_EQ(foo.max_local_size(), 128U);
  ASSERT_EQ(foo.arguments_size(), 4);
  const std::vector<std::pair<uint64_t, uint64_t>> expected = {
      {0, 8}, {8, 1}, {16, 20000}, {20016, 4}};
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(foo.arguments(i).offset(), expected[i].first) << i;
    EXPECT_EQ(foo.arguments(i).bytes(), expected[i].second) << i;
  }
}

TEST(Ptx, WhatIsNotPtxIsRefusedWithItsLine) {
  EXPECT_EQ(ReasonOf(ReadPtx("").status()), v1::BAD_REQUEST);
  EXPECT_EQ(ReasonOf(ReadPtx("int main() {}").status()), v1::BAD_REQUEST);
  const auto cut = ReadPtx(".version 9.0\n.target sm_90\n.entry foo(\n.param .u64 a");
  EXPECT_THAT(std::string(cut.status().message()), HasSubstr("PTX line 4"));
  EXPECT_FALSE(ReadPtx(".version 9.0\n.target sm_90\n.entry foo(.param .texref t)").ok());
}

TEST(DeviceProbe, Architectures) {
  EXPECT_EQ(DefaultArchitecture(8, 6), "sm_86");
  EXPECT_EQ(DefaultArchitecture(9, 0), "sm_90a");
  EXPECT_EQ(DefaultArchitecture(12, 0), "sm_120a");
  EXPECT_EQ(ComputeCapabilityOf("sm_90a"), 90U);
  EXPECT_EQ(ComputeCapabilityOf("sm_103f"), 103U);
  EXPECT_EQ(ComputeCapabilityOf("gfx90a"), std::nullopt);
  EXPECT_EQ(ComputeCapabilityOf("sm_"), std::nullopt);
}

TEST(DeviceProbe, TheMinorComesFromTheKernelModule) {
  EXPECT_EQ(DeviceMinor("Model: \t\t NVIDIA H200\nDevice Minor: \t 5\nGPU Excluded:\t No\n"), 5);
  EXPECT_EQ(DeviceMinor("Device Minor: \n12"), -1);
  EXPECT_EQ(DeviceMinor("Model: NVIDIA"), -1);
}

CuResult NoName(CuResult, const char** text) {
  *text = "text";
  return kCudaSuccess;
}

TEST(DriverError, ReasonsSayWhetherTheContextIsDead) {
  DriverTable driver;
  driver.get_error_name = NoName;
  driver.get_error_string = NoName;
  const std::map<CuResult, v1::ErrorReason> expected = {
      {kCudaErrorIllegalAddress, v1::KERNEL_FAULT},
      {kCudaErrorLaunchFailed, v1::KERNEL_FAULT},
      {kCudaErrorHardwareStackError, v1::KERNEL_FAULT},
      {kCudaErrorMisalignedAddress, v1::KERNEL_FAULT},
      {kCudaErrorEccUncorrectable, v1::DEVICE_LOST},
      {kCudaErrorUnknown, v1::DEVICE_LOST},
      {kCudaErrorContextIsDestroyed, v1::DEVICE_LOST},
      {kCudaErrorOutOfMemory, v1::OUT_OF_DEVICE_MEMORY},
      {kCudaErrorLaunchOutOfResources, v1::INVALID_LAUNCH},
      {kCudaErrorInvalidValue, v1::INVALID_LAUNCH},
      {kCudaErrorNoBinaryForGpu, v1::UNSUPPORTED_ARCHITECTURE},
      {kCudaErrorUnsupportedPtxVersion, v1::COMPILE_FAILED}};
  for (const auto& [result, reason] : expected) {
    const absl::Status status = DriverError(driver, result, "while testing", v1::INVALID_LAUNCH);
    EXPECT_EQ(ReasonOf(status), reason) << result;
    EXPECT_THAT(std::string(status.message()), HasSubstr("while testing: text"));
  }
  EXPECT_EQ(DetailsOf(DriverError(driver, kCudaErrorEccUncorrectable, "")).count("physical"), 1U);
  EXPECT_EQ(DetailsOf(DriverError(driver, kCudaErrorIllegalAddress, "")).count("physical"), 0U);
  EXPECT_TRUE(DriverError(driver, kCudaSuccess, "fine").ok());
}

// ---- compiling ----------------------------------------------------------------------------------

constexpr char kSource[] = R"(
#include "k/a.h"
struct Pair { int a; double b; };
extern "C" __global__ void __launch_bounds__(256) plain(float* p, int n, Pair s, char c) {
  __shared__ float tile[64];
  tile[threadIdx.x % 64] = p[n];
  __syncthreads();
  p[threadIdx.x] = tile[(threadIdx.x + 1) % 64] + static_cast<float>(s.b) + c + VALUE + DEFINED;
}
template <typename T, int N> __global__ void scaled(T* p) { p[threadIdx.x] *= N; }
extern "C" __global__ void bare() {}
)";

class NvrtcCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    toolkit_ = FindToolkit();
    if (!toolkit_.ok()) GTEST_SKIP() << toolkit_.status().message();
  }
  static v1::CompileRequest Request(const std::string& source,
                                    const std::string& architecture = "sm_90a") {
    v1::CompileRequest request;
    request.set_framework("CUDA");
    request.set_architecture(architecture);
    request.mutable_manifest()->set_language("cuda-c++");
    request.set_source(source);
    return request;
  }
  static v1::CompileRequest FullRequest() {
    v1::CompileRequest request = Request(kSource);
    request.add_headers()->set_name("k/a.h");
    request.mutable_headers(0)->set_content("#include \"b.h\"\n");
    request.add_headers()->set_name("k/b.h");
    request.mutable_headers(1)->set_content("#pragma once\n#define VALUE 3\n");
    request.mutable_manifest()->add_defines()->set_name("DEFINED");
    request.mutable_manifest()->mutable_defines(0)->set_value("4");
    request.mutable_manifest()->add_name_expressions("scaled<float, 2>");
    request.mutable_manifest()->add_name_expressions("scaled<double, 3>");
    return request;
  }
  absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request) {
    return NvrtcCompiler(toolkit_, NvrtcDialect()).Compile(request);
  }
  static std::map<std::string, v1::KernelInfo> ByEntry(const v1::Artifact& artifact) {
    std::map<std::string, v1::KernelInfo> kernels;
    for (const v1::KernelInfo& kernel : artifact.kernels()) kernels[kernel.entry()] = kernel;
    return kernels;
  }
  static void CheckKernels(const v1::Artifact& artifact) {
    auto kernels = ByEntry(artifact);
    ASSERT_EQ(kernels.size(), 4U) << artifact.DebugString();
    const v1::KernelInfo& plain = kernels["plain"];
    EXPECT_TRUE(plain.arguments_known());
    ASSERT_EQ(plain.arguments_size(), 4);
    const std::vector<std::pair<uint64_t, uint64_t>> expected = {{0, 8}, {8, 4}, {16, 16}, {32, 1}};
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(plain.arguments(i).offset(), expected[i].first) << i;
      EXPECT_EQ(plain.arguments(i).bytes(), expected[i].second) << i;
      EXPECT_EQ(plain.arguments(i).kind(), v1::ARGUMENT_KIND_UNSPECIFIED);
    }
    EXPECT_EQ(plain.max_local_size(), 256U);
    EXPECT_EQ(kernels["bare"].arguments_size(), 0);
    EXPECT_TRUE(kernels["bare"].arguments_known());
    EXPECT_THAT(kernels["scaled<float, 2>"].lowered_name(), HasSubstr("scaledIfLi2E"));
    EXPECT_THAT(kernels["scaled<double, 3>"].lowered_name(), HasSubstr("scaledIdLi3E"));
  }

  absl::StatusOr<Toolkit> toolkit_ = absl::UnknownError("not looked for");
};

TEST_F(NvrtcCompilerTest, ACubinWithHeadersDefinesTemplatesAndReflection) {
  const auto artifact = Compile(FullRequest());
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->format(), "cubin");
  EXPECT_EQ(artifact->architecture(), "sm_90a");
  CheckKernels(*artifact);
  auto kernels = ByEntry(*artifact);
  EXPECT_GE(kernels["plain"].local_memory_bytes(), 256U);
  EXPECT_GT(kernels["plain"].registers(), 0U);
  const auto cubin = ReadCubin(artifact->binary());
  ASSERT_TRUE(cubin.ok());
  EXPECT_EQ(cubin->compute_capability, 90U);
}

TEST_F(NvrtcCompilerTest, TheSameAsPtx) {
  v1::CompileRequest request = FullRequest();
  request.set_framework("CUDA/PTX");
  const auto artifact = Compile(request);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->format(), "ptx");
  EXPECT_THAT(artifact->binary(), HasSubstr(".target sm_90a"));
  CheckKernels(*artifact);
}

TEST_F(NvrtcCompilerTest, EveryArchitectureThatIsListedCompilesAndReflects) {
  for (const std::string& architecture : toolkit_->Architectures()) {
    v1::CompileRequest request = FullRequest();
    request.set_architecture(architecture);
    const auto artifact = Compile(request);
    ASSERT_TRUE(artifact.ok()) << architecture << ": " << artifact.status();
    CheckKernels(*artifact);
    EXPECT_EQ(ReadCubin(artifact->binary())->compute_capability, ComputeCapabilityOf(architecture));
  }
}

TEST_F(NvrtcCompilerTest, ParametersOfManyKilobytes) {
  const auto artifact =
      Compile(Request("struct Big { char x[20000]; };\n"
                      "extern \"C\" __global__ void big(Big b, float* p) { p[0] = b.x[19999]; }"));
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  ASSERT_EQ(artifact->kernels(0).arguments_size(), 2);
  EXPECT_EQ(artifact->kernels(0).arguments(0).bytes(), 20000U);
  EXPECT_EQ(artifact->kernels(0).arguments(1).offset(), 20000U);
}

TEST_F(NvrtcCompilerTest, AnErrorCarriesTheLogCutToItsLimit) {
  v1::CompileRequest request = Request("__global__ void k() { undeclared = 1; }");
  const absl::Status failed = Compile(request).status();
  EXPECT_EQ(ReasonOf(failed), v1::COMPILE_FAILED);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("undeclared"));
  EXPECT_THAT(std::string(failed.message()), HasSubstr("kcache.cu"));
  request.set_max_log_bytes(100);
  EXPECT_THAT(std::string(Compile(request).status().message()), HasSubstr("more bytes of log"));
}

TEST_F(NvrtcCompilerTest, WarningsAreInTheArtifactsLog) {
  const auto artifact = Compile(Request("extern \"C\" __global__ void k() { int unused; }"));
  ASSERT_TRUE(artifact.ok());
  EXPECT_THAT(artifact->build_log(), HasSubstr("unused"));
}

TEST_F(NvrtcCompilerTest, TheSameInputGivesTheSameBytes) {
  EXPECT_EQ(Compile(FullRequest())->binary(), Compile(FullRequest())->binary());
}

TEST_F(NvrtcCompilerTest, UnknownArchitecturesAndLanguagesAreTypedErrors) {
  for (const char* architecture : {"sm_12", "gfx90a", "", "sm_90a --x"}) {
    const absl::Status status = Compile(Request("", architecture)).status();
    EXPECT_EQ(ReasonOf(status), v1::UNSUPPORTED_ARCHITECTURE) << architecture;
    EXPECT_THAT(std::string(status.message()), HasSubstr("sm_90a"));
  }
  v1::CompileRequest request = Request("");
  request.mutable_manifest()->set_language("opencl-c");
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::UNSUPPORTED_LANGUAGE);
}

TEST_F(NvrtcCompilerTest, BadFlagsAndExpressionsAreTheCallersFault) {
  v1::CompileRequest request = Request("");
  request.mutable_manifest()->add_flags("--no-such-flag-anywhere");
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::BAD_REQUEST);
  request = Request("template <typename T> __global__ void k() {}");
  request.mutable_manifest()->add_name_expressions("missing<int>");
  EXPECT_FALSE(Compile(request).ok());
  request = Request(std::string("int a;\0int b;", 13));
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::BAD_REQUEST);
}

TEST_F(NvrtcCompilerTest, OutputHasALimit) {
  v1::CompileRequest request = FullRequest();
  request.set_max_output_bytes(100);
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::LIMIT_EXCEEDED);
}

TEST_F(NvrtcCompilerTest, TheWorkingDirectoryIsNotSearched) {
  std::ofstream("kcache_stray_header.h") << "#define STRAY 1\n";
  const absl::Status status = Compile(Request("#include \"kcache_stray_header.h\"\n")).status();
  std::remove("kcache_stray_header.h");
  EXPECT_EQ(ReasonOf(status), v1::COMPILE_FAILED);
}

TEST_F(NvrtcCompilerTest, TheDiskIsNotRead) {
  const absl::Status status = Compile(Request("#include \"/etc/hostname\"\n")).status();
  EXPECT_EQ(ReasonOf(status), v1::COMPILE_FAILED);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/etc/hostname"));
}

TEST_F(NvrtcCompilerTest, APtxProgramOfTheCallers) {
  v1::CompileRequest request = FullRequest();
  request.set_framework("CUDA/PTX");
  const std::string ptx = Compile(request)->binary();
  v1::CompileRequest mine = Request(ptx);
  mine.mutable_manifest()->set_language("ptx");
  // Finished here where nvJitLink is, else by the driver at load.
  const auto artifact = Compile(mine);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->format(), toolkit_->ptx_linker ? "cubin" : "ptx");
  EXPECT_EQ(artifact->kernels_size(), 4);
  mine.set_framework("CUDA/PTX");
  const auto kept = Compile(mine);
  ASSERT_TRUE(kept.ok()) << kept.status();
  EXPECT_EQ(kept->format(), "ptx");
  EXPECT_EQ(kept->binary(), ptx);
  mine.mutable_manifest()->add_flags("-O1");
  EXPECT_EQ(ReasonOf(Compile(mine).status()), v1::BAD_REQUEST);
  mine.mutable_manifest()->clear_flags();
  mine.set_architecture("sm_80");
  EXPECT_EQ(ReasonOf(Compile(mine).status()), v1::UNSUPPORTED_ARCHITECTURE);
  mine.set_source("garbage");
  EXPECT_EQ(ReasonOf(Compile(mine).status()), v1::COMPILE_FAILED);
}

TEST_F(NvrtcCompilerTest, PtxThatDoesNotAssembleIsAnErrorWithItsLog) {
  if (!toolkit_->ptx_linker) GTEST_SKIP() << "no nvJitLink beside " << toolkit_->nvrtc_path;
  v1::CompileRequest mine = Request(
      ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{ nonsense.u32; }\n");
  mine.mutable_manifest()->set_language("ptx");
  const absl::Status failed = Compile(mine).status();
  EXPECT_EQ(ReasonOf(failed), v1::COMPILE_FAILED);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("nonsense"));
  mine.mutable_manifest()->add_flags("--no-such-flag");
  EXPECT_EQ(ReasonOf(Compile(mine).status()), v1::BAD_REQUEST);
}

TEST_F(NvrtcCompilerTest, ACubinOfTheCallers) {
  v1::CompileRequest mine = Request(Compile(FullRequest())->binary());
  mine.mutable_manifest()->set_language("binary");
  const auto artifact = Compile(mine);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->kernels_size(), 4);
  mine.set_architecture("sm_80");
  EXPECT_EQ(ReasonOf(Compile(mine).status()), v1::UNSUPPORTED_ARCHITECTURE);
  mine.set_architecture("sm_90a");
  mine.mutable_manifest()->add_defines()->set_name("X");
  EXPECT_EQ(ReasonOf(Compile(mine).status()), v1::BAD_REQUEST);
  mine.set_framework("CUDA/PTX");
  EXPECT_EQ(ReasonOf(Compile(mine).status()), v1::UNSUPPORTED_LANGUAGE);
}

TEST_F(NvrtcCompilerTest, ADamagedCubinIsAnErrorAndNeverACrash) {
  const std::string whole = Compile(FullRequest())->binary();
  for (size_t bytes = 0; bytes < whole.size(); bytes += 97) {
    (void)ReadCubin(std::string_view(whole).substr(0, bytes));
  }
  EXPECT_EQ(ReasonOf(ReadCubin(whole.substr(0, whole.size() / 2)).status()), v1::BAD_REQUEST);
  uint32_t state = 7;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 8; ++i) {
      state = state * 1664525 + 1013904223;
      damaged[state % damaged.size()] = static_cast<char>(state >> 24);
    }
    (void)ReadCubin(damaged);
  }
}

TEST_F(NvrtcCompilerTest, ToolkitHeadersAndCub) {
  if (toolkit_->include_directories.empty()) GTEST_SKIP() << "the toolkit has no headers";
  const auto artifact = Compile(Request(R"(
#include <cuda_fp16.h>
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void reduce(const float* in, __half* out) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ typename Reduce::TempStorage storage;
  const float sum = Reduce(storage).Sum(in[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = __float2half(sum);
})"));
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->kernels(0).arguments_size(), 2);
}

TEST_F(NvrtcCompilerTest, TheFingerprintIsAFunctionOfTheFiles) {
  EXPECT_EQ(toolkit_->Fingerprint().size(), 32U);
  EXPECT_EQ(toolkit_->Fingerprint(), FindToolkit()->Fingerprint());
}

TEST(NvrtcCompiler, WithoutAToolkitTheReasonIsSaid) {
  const absl::Status missing = MakeError(v1::BACKEND_UNAVAILABLE, "libnvrtc.so.13 not found");
  v1::CompileRequest request;
  request.mutable_manifest()->set_language("cuda-c++");
  request.set_architecture("sm_90a");
  const auto artifact = NvrtcCompiler(missing, NvrtcDialect()).Compile(request);
  EXPECT_EQ(ReasonOf(artifact.status()), v1::BACKEND_UNAVAILABLE);
  EXPECT_THAT(std::string(artifact.status().message()), HasSubstr("libnvrtc.so.13"));
}

}  // namespace
}  // namespace kcache::backend::nvidia
