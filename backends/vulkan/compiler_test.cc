#include "backends/vulkan/compiler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/vulkan/test_shaders.h"
#include "backends/vulkan/test_support.h"

namespace kcache::backend::vulkan {
namespace {

using ::testing::HasSubstr;

class CompilerTest : public testing::Test {
 protected:
  CompilerTest() : family_(log_.Options()) {}

  void SetUp() override {
    auto compiler = family_.MakeCompiler();
    ASSERT_TRUE(compiler.ok()) << compiler.status();
    compiler_ = *std::move(compiler);
  }
  void TearDown() override {
    compiler_.reset();
    EXPECT_THAT(log_.messages(), testing::IsEmpty());
  }

  absl::Status Failure(const v1::CompileRequest& request) {
    return compiler_->Compile(request).status();
  }

  ValidationLog log_;
  VulkanFamily family_;
  std::unique_ptr<Compiler> compiler_;
};

TEST_F(CompilerTest, GlslToSpirvWithReflection) {
  auto artifact = compiler_->Compile(GlslRequest(kSaxpy));
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->format(), "spirv");
  EXPECT_EQ(artifact->architecture(), "spirv");
  ASSERT_EQ(artifact->kernels_size(), 1);
  EXPECT_EQ(artifact->kernels(0).entry(), "main");
  EXPECT_EQ(artifact->kernels(0).arguments_size(), 5);
  EXPECT_EQ(artifact->extra_size(), 0);
}

TEST_F(CompilerTest, SpirvPassesThrough) {
  auto first = compiler_->Compile(GlslRequest(kSaxpy));
  ASSERT_TRUE(first.ok()) << first.status();
  for (const char* language : {"spirv", "binary"}) {
    auto again = compiler_->Compile(Request(language, first->binary()));
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->binary(), first->binary());
    EXPECT_EQ(again->kernels_size(), 1);
  }
}

TEST_F(CompilerTest, OneSourceOneBinary) {
  auto first = compiler_->Compile(GlslRequest(kSaxpy, {"-O"}));
  auto second = compiler_->Compile(GlslRequest(kSaxpy, {"-O"}));
  auto plain = compiler_->Compile(GlslRequest(kSaxpy, {"-O0"}));
  ASSERT_TRUE(first.ok() && second.ok() && plain.ok());
  EXPECT_EQ(first->binary(), second->binary());
  EXPECT_NE(first->binary(), plain->binary());
}

TEST_F(CompilerTest, ErrorsCarryTheLog) {
  const absl::Status failure =
      Failure(GlslRequest("#version 450\nvoid main() { undeclared = 1; }\n"));
  EXPECT_EQ(ReasonOf(failure), v1::COMPILE_FAILED);
  EXPECT_THAT(std::string(failure.message()), HasSubstr("undeclared"));
  EXPECT_THAT(std::string(failure.message()), HasSubstr("source.comp:2"));
}

TEST_F(CompilerTest, HeadersByContent) {
  v1::CompileRequest request = GlslRequest(R"(#version 450
#extension GL_GOOGLE_include_directive : require
#include "math/outer.h"
layout(local_size_x = 1) in;
layout(binding = 0) buffer Data { uint data[]; };
void main() { data[0] = OUTER + INNER; }
)");
  v1::HeaderFile* outer = request.add_headers();
  outer->set_name("math/outer.h");
  outer->set_content("#include \"inner.h\"\n#define OUTER 1\n");
  EXPECT_EQ(ReasonOf(Failure(request)), v1::COMPILE_FAILED);
  EXPECT_THAT(std::string(Failure(request).message()),
              HasSubstr("header \"inner.h\" is not among the program's headers"));

  v1::HeaderFile* inner = request.add_headers();
  inner->set_name("math/inner.h");
  inner->set_content("#define INNER 2\n");
  auto artifact = compiler_->Compile(request);
  EXPECT_TRUE(artifact.ok()) << artifact.status();
}

TEST_F(CompilerTest, FilesOfTheMachineAreNoHeaders) {
  for (const char* name : {"/etc/passwd", "../../../../etc/passwd"}) {
    const absl::Status failure =
        Failure(GlslRequest(std::string("#version 450\n"
                                        "#extension GL_GOOGLE_include_directive : require\n"
                                        "#include \"") +
                            name + "\"\nvoid main() {}\n"));
    EXPECT_EQ(ReasonOf(failure), v1::COMPILE_FAILED);
    EXPECT_THAT(std::string(failure.message()), HasSubstr("is not among the program's headers"));
  }
}

TEST_F(CompilerTest, Defines) {
  v1::CompileRequest request = GlslRequest(R"(#version 450
layout(local_size_x = SIZE) in;
#ifndef WITH_STORE
#error WITH_STORE is missing
#endif
layout(binding = 0) buffer Data { uint data[]; };
void main() { data[0] = 1u; }
)");
  v1::Define* size = request.mutable_manifest()->add_defines();
  size->set_name("SIZE");
  size->set_value("48");
  EXPECT_THAT(std::string(Failure(request).message()), HasSubstr("WITH_STORE is missing"));
  request.mutable_manifest()->add_defines()->set_name("WITH_STORE");
  auto artifact = compiler_->Compile(request);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->kernels(0).required_local_size().x(), 48u);
}

TEST_F(CompilerTest, UnknownFlagIsNamed) {
  for (const char* flag : {"-O3", "--target-env=vulkan9", "-std=", "-I/usr/include"}) {
    const absl::Status failure = Failure(GlslRequest(kSaxpy, {flag}));
    EXPECT_EQ(ReasonOf(failure), v1::BAD_REQUEST);
    EXPECT_THAT(std::string(failure.message()), HasSubstr(flag));
  }
}

TEST_F(CompilerTest, FlagsReachTheCompiler) {
  auto old_version = compiler_->Compile(GlslRequest(kSaxpy, {"--target-spv=spv1.0"}));
  ASSERT_TRUE(old_version.ok()) << old_version.status();
  EXPECT_EQ(old_version->binary().substr(4, 4), std::string("\0\0\1\0", 4));
  const absl::Status strict = Failure(GlslRequest(kSaxpy, {"-std=100es"}));
  EXPECT_EQ(ReasonOf(strict), v1::COMPILE_FAILED) << strict;
}

TEST_F(CompilerTest, InvalidSpirvIsRefusedByTheValidator) {
  auto good = compiler_->Compile(GlslRequest(kSaxpy));
  ASSERT_TRUE(good.ok());
  std::string bad = good->binary();
  bad.resize(bad.size() - 8);  // the end of main is gone
  EXPECT_EQ(ReasonOf(Failure(Request("spirv", bad))), v1::COMPILE_FAILED);
  EXPECT_EQ(ReasonOf(Failure(Request("spirv", "not SPIR-V at all!!!"))), v1::COMPILE_FAILED);
  EXPECT_EQ(ReasonOf(Failure(Request("spirv", ""))), v1::COMPILE_FAILED);
  EXPECT_EQ(ReasonOf(Failure(Request("opencl-c", "x"))), v1::UNSUPPORTED_LANGUAGE);
}

TEST_F(CompilerTest, MakesThePipelineForADevicesArchitecture) {
  const v1::ProbeReport report = family_.Probe();
  ASSERT_GT(report.devices_size(), 0) << report.reason();
  v1::CompileRequest request = GlslRequest(kIndices);
  request.set_architecture(report.devices(0).architecture());
  v1::LaunchShape* shape = request.mutable_manifest()->add_launch_shapes();
  shape->set_entry("main");
  shape->mutable_local_size()->set_x(16);
  auto artifact = compiler_->Compile(request);
  ASSERT_TRUE(artifact.ok()) << artifact.status();
  EXPECT_EQ(artifact->architecture(), report.devices(0).architecture());

  // A local size that the device does not have is found here, not in a host.
  shape->mutable_local_size()->set_x(1 << 20);
  EXPECT_THAT(std::string(Failure(request).message()), HasSubstr("maxComputeWorkGroupSize"));
  // Without the device's part it is only SPIR-V.
  request.mutable_manifest()->add_flags("--no-pipeline");
  EXPECT_TRUE(compiler_->Compile(request).ok());
}

TEST_F(CompilerTest, ForeignArchitectureIsRefused) {
  v1::CompileRequest request = GlslRequest(kSaxpy);
  request.set_architecture("spirv-00000000000000000000000000000000");
  EXPECT_EQ(ReasonOf(Failure(request)), v1::UNSUPPORTED_ARCHITECTURE);
}

TEST_F(CompilerTest, OutputIsBounded) {
  v1::CompileRequest request = GlslRequest(kSaxpy);
  request.set_max_output_bytes(100);
  EXPECT_EQ(ReasonOf(Failure(request)), v1::LIMIT_EXCEEDED);
}

TEST(Family, SaysWhatIsMissing) {
  InstanceOptions no_loader;
  no_loader.library = "libvulkan-that-is-not-there.so.1";
  VulkanFamily family(no_loader);
  const v1::ProbeReport report = family.Probe();
  EXPECT_FALSE(report.available());
  EXPECT_THAT(report.reason(), HasSubstr("libvulkan-that-is-not-there.so.1 not found"));
  ASSERT_EQ(report.compilers_size(), 1);
  EXPECT_THAT(report.compilers(0).architectures(), testing::ElementsAre("spirv"));

  auto compiler = family.MakeCompiler();
  ASSERT_TRUE(compiler.ok()) << compiler.status();
  // Without a driver there is still SPIR-V for any device.
  v1::CompileRequest request = GlslRequest(kSaxpy);
  EXPECT_TRUE((*compiler)->Compile(request).ok());
  request.set_architecture("spirv-00000000000000000000000000000000");
  EXPECT_EQ(ReasonOf((*compiler)->Compile(request).status()), v1::BACKEND_UNAVAILABLE);
  EXPECT_EQ(ReasonOf(family.OpenContext({}).status()), v1::BACKEND_UNAVAILABLE);
}

TEST(Family, ProbeDescribesTheDevice) {
  VulkanFamily family;
  const v1::ProbeReport report = family.Probe();
  ASSERT_TRUE(report.available()) << report.reason();
  ASSERT_GT(report.devices_size(), 0);
  const v1::DeviceInfo& device = report.devices(0);
  EXPECT_EQ(device.device().framework(), "Vulkan");
  EXPECT_FALSE(device.name().empty());
  EXPECT_EQ(device.uuid().size(), 36u);
  EXPECT_THAT(device.architecture(), testing::StartsWith("spirv-"));
  EXPECT_GT(device.limits().memory_bytes(), 0u);
  EXPECT_GE(device.limits().push_constant_bytes(), 128u);
  EXPECT_THAT(device.languages(), testing::Contains("glsl"));
  EXPECT_THAT(device.host_environment(),
              testing::Contains(testing::StartsWith("KCACHE_VULKAN_DEVICE=" + device.uuid())));
  EXPECT_TRUE(report.compile_profile().needs_device());
  EXPECT_EQ(device.compiler_fingerprint().size(), 32u);

  // Another process opens the device by that identity, whatever index it has there.
  const std::string identity = device.host_environment(0).substr(sizeof("KCACHE_VULKAN_DEVICE"));
  setenv("KCACHE_VULKAN_DEVICE", identity.c_str(), 1);
  auto context = family.OpenContext({.index = 99, .variant = {}});
  unsetenv("KCACHE_VULKAN_DEVICE");
  ASSERT_TRUE(context.ok()) << context.status();
  EXPECT_EQ((*context)->device().uuid(), device.uuid());
  EXPECT_TRUE((*context)->Close().ok());
  EXPECT_EQ(ReasonOf(family.OpenContext({.index = 99, .variant = {}}).status()),
            v1::UNKNOWN_DEVICE);
}

}  // namespace
}  // namespace kcache::backend::vulkan
