// The HIP backend without a GPU: hipRTC's programs, code objects, architectures that end the
// compiler. Started with --try-architecture this program is the throw-away process itself.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "backends/hip/architecture_trial.h"
#include "backends/hip/code_object.h"
#include "backends/hip/hip_family.h"
#include "backends/hip/hip_table.h"
#include "backends/hip/hiprtc_compiler.h"
#include "backends/hip/msgpack.h"
#include "backends/nvidia/toolkit.h"
#include "contract/error_reason.h"

namespace kcache::backend::hip {
namespace {

using testing::AnyOf;
using testing::HasSubstr;

constexpr char kThisProgram[] = "/proc/self/exe";

TEST(Msgpack, EveryKindOfValue) {
  using namespace std::string_literals;  // NOLINT(google-build-using-namespace): for NULs
  const std::string bytes = "\x86"s + "\xa1"s + "a\x05"s + "\xa1"s + "b\xcd\x01\x02"s + "\xa1"s +
                            "c\x92\xc3\xff"s + "\xa1"s + "d\xd9\x03xyz"s + "\xa1"s +
                            "e\xcb\0\0\0\0\0\0\0\0"s + "\xa1"s + "f\x81\xa1g\xd1\xff\xfe"s;
  const auto value = ParseMsgpack(bytes);
  ASSERT_TRUE(value.ok()) << value.status();
  EXPECT_EQ(value->Integer("a"), 5U);
  EXPECT_EQ(value->Integer("b"), 0x102U);
  ASSERT_EQ(value->Find("c")->array.size(), 2U);
  EXPECT_EQ(value->Find("c")->array[1].integer, -1);
  EXPECT_EQ(value->String("d"), "xyz");
  EXPECT_EQ(value->Find("e")->kind, MsgpackValue::Kind::kNil);
  EXPECT_EQ(static_cast<int64_t>(value->Find("f")->Integer("g")), -2);
  EXPECT_EQ(value->Find("h"), nullptr);
  EXPECT_EQ(value->Integer("d"), 0U);
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    EXPECT_FALSE(ParseMsgpack(bytes.substr(0, cut)).ok()) << cut;
  }
}

TEST(Msgpack, DepthAndCountsAreBounded) {
  EXPECT_FALSE(ParseMsgpack(std::string(100000, '\x91')).ok());
  EXPECT_FALSE(ParseMsgpack(std::string("\xdd\xff\xff\xff\xff", 5)).ok());
  EXPECT_FALSE(ParseMsgpack("\x81\x01\x01").ok());  // a key that is no string
}

TEST(HipError, ReasonsSayWhetherTheContextIsDead) {
  HipTable hip;
  hip.error_name = [](HipResult) { return "hipErrorName"; };
  hip.error_string = [](HipResult) -> const char* { return nullptr; };
  const std::map<HipResult, v1::ErrorReason> expected = {
      {kHipErrorIllegalAddress, v1::KERNEL_FAULT},
      {kHipErrorLaunchFailure, v1::KERNEL_FAULT},
      {kHipErrorUnknown, v1::DEVICE_LOST},
      {kHipErrorOutOfMemory, v1::OUT_OF_DEVICE_MEMORY},
      {kHipErrorInvalidValue, v1::INVALID_LAUNCH},
      {kHipErrorNoBinaryForGpu, v1::UNSUPPORTED_ARCHITECTURE},
      {kHipErrorNoDevice, v1::BACKEND_UNAVAILABLE}};
  for (const auto& [result, reason] : expected) {
    EXPECT_EQ(ReasonOf(HipError(hip, result, "while testing", v1::INVALID_LAUNCH)), reason)
        << result;
  }
}

constexpr char kSource[] = R"(
#include <hip/hip_runtime.h>
#include "k/a.h"
struct Pair { int a; double b; };
extern "C" __global__ void __launch_bounds__(256) plain(float* p, int n, Pair s, const char* q) {
  __shared__ float tile[64];
  tile[threadIdx.x % 64] = p[n];
  __syncthreads();
  p[threadIdx.x] = tile[(threadIdx.x + 1) % 64] + static_cast<float>(s.b) + q[0] + VALUE + DEFINED;
}
template <typename T, int N> __global__ void scaled(T* p) { p[threadIdx.x] *= N; }
extern "C" __global__ void bare() {}
)";

class HiprtcCompilerTest : public testing::Test {
 protected:
  void SetUp() override {
    hiprtc_ = LoadHiprtc();
    if (!hiprtc_.ok()) GTEST_SKIP() << hiprtc_.status().message();
  }
  static v1::CompileRequest Request(const std::string& source, const std::string& architecture) {
    v1::CompileRequest request;
    request.set_framework("HIP");
    request.set_architecture(architecture);
    request.mutable_manifest()->set_language("hip-c++");
    request.set_source(source);
    return request;
  }
  static v1::CompileRequest FullRequest(const std::string& architecture) {
    v1::CompileRequest request = Request(kSource, architecture);
    request.add_headers()->set_name("k/a.h");
    request.mutable_headers(0)->set_content("#include \"b.h\"\n");
    request.add_headers()->set_name("k/b.h");
    request.mutable_headers(1)->set_content("#define VALUE 3\n");
    request.mutable_manifest()->add_defines()->set_name("DEFINED");
    request.mutable_manifest()->mutable_defines(0)->set_value("4");
    request.mutable_manifest()->add_name_expressions("scaled<float, 2>");
    return request;
  }
  absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request) {
    return HiprtcCompiler(hiprtc_,
                          [](const std::string& architecture) {
                            return TryArchitecture(kThisProgram, architecture);
                          })
        .Compile(request);
  }

  absl::StatusOr<Hiprtc> hiprtc_ = absl::UnknownError("not looked for");
};

TEST_F(HiprtcCompilerTest, CodeObjectsForArchitecturesThatNoGpuHereHas) {
  for (const std::string architecture : {"gfx90a", "gfx1030", "gfx90a:sramecc+:xnack-"}) {
    const auto artifact = Compile(FullRequest(architecture));
    ASSERT_TRUE(artifact.ok()) << architecture << ": " << artifact.status();
    EXPECT_EQ(artifact->format(), "code-object");
    EXPECT_EQ(artifact->architecture(), architecture);
    const auto object = ReadCodeObject(artifact->binary());
    ASSERT_TRUE(object.ok()) << object.status();
    EXPECT_EQ(object->target, architecture);
    std::map<std::string, v1::KernelInfo> kernels;
    for (const v1::KernelInfo& kernel : artifact->kernels()) kernels[kernel.entry()] = kernel;
    ASSERT_EQ(kernels.size(), 3U) << artifact->DebugString();
    EXPECT_THAT(kernels["scaled<float, 2>"].lowered_name(), HasSubstr("scaledIfLi2E"));
    EXPECT_EQ(kernels["bare"].arguments_size(), 0);
    const v1::KernelInfo& plain = kernels["plain"];
    EXPECT_TRUE(plain.arguments_known());
    EXPECT_EQ(plain.max_local_size(), 256U);
    EXPECT_EQ(plain.local_memory_bytes(), 256U);
    EXPECT_GT(plain.registers(), 0U);
    ASSERT_EQ(plain.arguments_size(), 4);
    const std::vector<v1::ArgumentKind> kinds = {v1::ARGUMENT_BUFFER, v1::ARGUMENT_SCALAR,
                                                 v1::ARGUMENT_SCALAR, v1::ARGUMENT_BUFFER};
    const std::vector<std::pair<uint64_t, uint64_t>> expected = {{0, 8}, {8, 4}, {16, 16}, {32, 8}};
    for (int i = 0; i < 4; ++i) {
      EXPECT_EQ(plain.arguments(i).kind(), kinds[i]) << i;
      EXPECT_EQ(plain.arguments(i).offset(), expected[i].first) << i;
      EXPECT_EQ(plain.arguments(i).bytes(), expected[i].second) << i;
    }
  }
}

TEST_F(HiprtcCompilerTest, AnArchitectureThatEndsTheCompilerIsAnAnswer) {
  // ROCm 5.2 aborts for these; a later one may know the first two.
  for (const char* architecture : {"gfx942", "gfx1100"}) {
    const auto artifact = Compile(Request("extern \"C\" __global__ void k() {}", architecture));
    EXPECT_THAT(ReasonOf(artifact.status()),
                AnyOf(v1::ERROR_REASON_UNSPECIFIED, v1::UNSUPPORTED_ARCHITECTURE));
  }
  for (const char* architecture : {"gfx000", "nonsense", "", "gfx90a --help", "sm_90a"}) {
    const auto artifact = Compile(Request("extern \"C\" __global__ void k() {}", architecture));
    EXPECT_EQ(ReasonOf(artifact.status()), v1::UNSUPPORTED_ARCHITECTURE) << architecture;
  }
}

TEST_F(HiprtcCompilerTest, AnArchitectureIsTriedOnce) {
  int trials = 0;
  HiprtcCompiler compiler(hiprtc_, [&trials](const std::string&) {
    ++trials;
    return MakeError(v1::UNSUPPORTED_ARCHITECTURE, "no");
  });
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(ReasonOf(compiler.Compile(Request("", "gfx000")).status()),
              v1::UNSUPPORTED_ARCHITECTURE);
  }
  EXPECT_EQ(trials, 1);
}

TEST_F(HiprtcCompilerTest, ATrialThatCouldNotBeMadeIsNoAnswer) {
  HiprtcCompiler compiler(hiprtc_, [](const std::string& architecture) {
    return TryArchitecture("/nonexistent/program", architecture);
  });
  EXPECT_EQ(ReasonOf(compiler.Compile(Request("", "gfx90a")).status()), v1::INTERNAL);
}

TEST_F(HiprtcCompilerTest, AnErrorCarriesTheLog) {
  const absl::Status failed =
      Compile(Request("__global__ void k() { undeclared = 1; }", "gfx90a")).status();
  EXPECT_EQ(ReasonOf(failed), v1::COMPILE_FAILED);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("undeclared"));
}

TEST_F(HiprtcCompilerTest, TheSameInputGivesTheSameBytes) {
  EXPECT_EQ(Compile(FullRequest("gfx90a"))->binary(), Compile(FullRequest("gfx90a"))->binary());
}

TEST_F(HiprtcCompilerTest, ACodeObjectOfTheCallers) {
  v1::CompileRequest mine = Request(Compile(FullRequest("gfx90a"))->binary(), "gfx90a");
  mine.mutable_manifest()->set_language("binary");
  const auto artifact = Compile(mine);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->kernels_size(), 3);
  mine.set_architecture("gfx1030");
  EXPECT_EQ(ReasonOf(Compile(mine).status()), v1::UNSUPPORTED_ARCHITECTURE);
  mine.set_source("garbage");
  EXPECT_EQ(ReasonOf(Compile(mine).status()), v1::COMPILE_FAILED);
  mine.mutable_manifest()->set_language("ptx");
  EXPECT_EQ(ReasonOf(Compile(mine).status()), v1::UNSUPPORTED_LANGUAGE);
}

TEST_F(HiprtcCompilerTest, ADamagedCodeObjectIsAnErrorAndNeverACrash) {
  const std::string whole = Compile(FullRequest("gfx90a"))->binary();
  uint32_t state = 7;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = whole;
    for (int i = 0; i < 8; ++i) {
      state = state * 1664525 + 1013904223;
      damaged[state % damaged.size()] = static_cast<char>(state >> 24);
    }
    (void)ReadCodeObject(damaged);
    (void)ReadCodeObject(std::string_view(whole).substr(0, state % whole.size()));
  }
  EXPECT_EQ(ReasonOf(ReadCodeObject(whole.substr(0, whole.size() / 2)).status()), v1::BAD_REQUEST);
}

TEST_F(HiprtcCompilerTest, AFamilyCompilesForBothPlatforms) {
  auto compiler = MakeHipFamily(kThisProgram)->MakeCompiler();
  ASSERT_TRUE(compiler.ok());
  const auto amd = (*compiler)->Compile(FullRequest("gfx90a"));
  ASSERT_TRUE(amd.ok()) << amd.status();
  EXPECT_EQ(amd->format(), "code-object");
  if (!nvidia::FindToolkit().ok()) GTEST_SKIP() << nvidia::FindToolkit().status().message();
  const auto nvidia = (*compiler)->Compile(FullRequest("sm_90a"));
  ASSERT_TRUE(nvidia.ok()) << nvidia.status();
  EXPECT_EQ(nvidia->format(), "cubin");
  EXPECT_EQ(nvidia->kernels_size(), 3);
}

TEST(HipFamily, AProbeNeverFailsAndSaysWhatIsMissing) {
  const v1::ProbeReport report = MakeHipFamily(kThisProgram)->Probe();
  EXPECT_EQ(report.family(), "HIP");
  ASSERT_EQ(report.compilers_size(), 1);
  EXPECT_TRUE(report.available() || report.reason().find("AMD: ") == 0) << report.reason();
  EXPECT_EQ(report.available(), report.devices_size() > 0);
  EXPECT_TRUE(report.compile_profile().executes_programs());
}

}  // namespace
}  // namespace kcache::backend::hip

int main(int argc, char** argv) {
  if (const auto architecture = kcache::backend::hip::RequestedTrial(argc, argv)) {
    return kcache::backend::hip::CompileEmptyKernel(*architecture);
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
