// Probe, compiling and reflection.

#include <map>

#include "tests/unit/opencl/fixture.h"

namespace kcache::backend::opencl {
namespace {

using ::testing::HasSubstr;

class CompilerTest : public OpenClTest {};

TEST_F(CompilerTest, ProbeListsBothDevices) {
  const v1::ProbeReport report = TheBackend().family->Probe();
  ASSERT_TRUE(report.available()) << report.reason();
  ASSERT_EQ(report.devices_size(), 2);
  for (int i = 0; i < 2; ++i) {
    const v1::DeviceInfo& device = report.devices(i);
    EXPECT_EQ(device.device().framework(), "OpenCL");
    EXPECT_EQ(device.device().index(), static_cast<uint32_t>(i));
    EXPECT_THAT(device.architecture(), ::testing::StartsWith("pocl-"));
    EXPECT_EQ(device.compiler_fingerprint().size(), 32U);
    EXPECT_TRUE(device.is_cpu());
    EXPECT_GT(device.limits().memory_bytes(), 0U);
    EXPECT_GT(device.limits().max_local_size(), 0U);
    EXPECT_FALSE(device.driver_version().empty());
    EXPECT_THAT(device.languages(), ::testing::Contains("opencl-c"));
  }
  // Same driver, same processor: one compiler and interchangeable binaries.
  EXPECT_EQ(report.devices(0).architecture(), report.devices(1).architecture());
  ASSERT_EQ(report.compilers_size(), 1);
  EXPECT_TRUE(report.compile_profile().executes_programs());
}

TEST_F(CompilerTest, ReflectionKnowsEveryKindOfArgument) {
  const v1::Artifact artifact = MustCompile(Source(R"(
    typedef struct { int a; double b; char c[3]; } Parameters;
    typedef float4 Color;
    kernel void all(global float* buffer, constant int* table, local float* scratch, int number,
                    unsigned char byte, float3 vector, ushort16 wide, Parameters parameters, Color color,
                    read_only image2d_t in, write_only image3d_t out, sampler_t how, ulong last) {}
  )"));
  ASSERT_EQ(artifact.kernels_size(), 1);
  const v1::KernelInfo& kernel = artifact.kernels(0);
  EXPECT_TRUE(kernel.arguments_known());
  struct Expected {
    const char* name;
    v1::ArgumentKind kind;
    uint64_t bytes;
  };
  const std::vector<Expected> expected{{"buffer", v1::ARGUMENT_BUFFER, 0},
                                       {"table", v1::ARGUMENT_BUFFER, 0},
                                       {"scratch", v1::ARGUMENT_LOCAL_MEMORY, 0},
                                       {"number", v1::ARGUMENT_SCALAR, 4},
                                       {"byte", v1::ARGUMENT_SCALAR, 1},
                                       {"vector", v1::ARGUMENT_SCALAR, 16},
                                       {"wide", v1::ARGUMENT_SCALAR, 32},
                                       {"parameters", v1::ARGUMENT_SCALAR, 24},
                                       {"color", v1::ARGUMENT_SCALAR, 16},
                                       {"in", v1::ARGUMENT_IMAGE, 0},
                                       {"out", v1::ARGUMENT_IMAGE, 0},
                                       {"how", v1::ARGUMENT_SAMPLER, 0},
                                       {"last", v1::ARGUMENT_SCALAR, 8}};
  ASSERT_EQ(kernel.arguments_size(), static_cast<int>(expected.size()));
  for (size_t i = 0; i < expected.size(); ++i) {
    const v1::ArgumentInfo& argument = kernel.arguments(static_cast<int>(i));
    EXPECT_EQ(argument.name(), expected[i].name);
    EXPECT_EQ(argument.kind(), expected[i].kind) << argument.name();
    EXPECT_EQ(argument.bytes(), expected[i].bytes) << argument.name();
  }
}

TEST_F(CompilerTest, ReflectionListsEntriesAndRequiredLocalSize) {
  const v1::Artifact artifact = MustCompile(Source(R"(
    kernel void b(global int* a) { local int t[64]; t[get_local_id(0)] = 1; barrier(CLK_LOCAL_MEM_FENCE); a[0] = t[3]; }
    kernel __attribute__((reqd_work_group_size(4, 2, 1))) void a(global int* a) { a[0] = 1; }
  )"));
  ASSERT_EQ(artifact.kernels_size(), 2);
  EXPECT_EQ(artifact.kernels(0).entry(), "a");
  EXPECT_EQ(artifact.kernels(0).required_local_size().x(), 4U);
  EXPECT_EQ(artifact.kernels(0).required_local_size().y(), 2U);
  EXPECT_EQ(artifact.kernels(1).entry(), "b");
  EXPECT_EQ(artifact.kernels(1).required_local_size().x(), 0U);
  EXPECT_GE(artifact.kernels(1).local_memory_bytes(), 256U);
}

TEST_F(CompilerTest, AnErrorCarriesTheLogWithTheSourcesOwnLines) {
  v1::CompileRequest request = Source("kernel void f(global int* a) {\n  a[0] = WIDTH\n}\n");
  v1::Define* define = request.mutable_manifest()->add_defines();
  define->set_name("WIDTH");
  define->set_value("(3+4)");
  const absl::Status status = Compile(request).status();
  EXPECT_EQ(ReasonOf(status), v1::COMPILE_FAILED);
  EXPECT_THAT(std::string(status.message()), HasSubstr(":2:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("expected ';'"));
}

TEST_F(CompilerTest, ALongLogIsCutAtTheLimit) {
  std::string source = "kernel void f(global int* a) {\n";
  for (int i = 0; i < 15; ++i) source += "  a[0] = undeclared" + std::to_string(i) + ";\n";
  v1::CompileRequest request = Source(source + "}\n");
  request.set_max_log_bytes(300);
  const absl::Status status = Compile(request).status();
  EXPECT_EQ(ReasonOf(status), v1::COMPILE_FAILED);
  EXPECT_LE(status.message().size(), 300U);
  EXPECT_THAT(std::string(status.message()), HasSubstr("[cut: the log has"));
}

TEST_F(CompilerTest, ABinaryOverTheLimitIsRefused) {
  v1::CompileRequest request = Source("kernel void f(global int* a) { a[0] = 1; }");
  request.set_max_output_bytes(100);
  const absl::Status status = Compile(request).status();
  EXPECT_EQ(ReasonOf(status), v1::LIMIT_EXCEEDED);
  EXPECT_THAT(std::string(status.message()), HasSubstr("max_output_bytes is 100"));
}

TEST_F(CompilerTest, HeadersComeByContentOnly) {
  v1::CompileRequest request =
      Source("#include \"lib/inner.h\"\nkernel void f(global int* a) { a[0] = VALUE; }");
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::COMPILE_FAILED);
  v1::HeaderFile* inner = request.add_headers();
  inner->set_name("lib/inner.h");
  inner->set_content("#include \"outer.h\"\n");
  v1::HeaderFile* outer = request.add_headers();
  outer->set_name("outer.h");
  outer->set_content("#define VALUE 42\n");
  EXPECT_EQ(Compile(request).status(), absl::OkStatus());
  // The headers of one compile are not there for the next.
  request.clear_headers();
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::COMPILE_FAILED);
}

TEST_F(CompilerTest, AChangedHeaderChangesTheProgram) {
  v1::CompileRequest request =
      Source("#include \"value.h\"\nkernel void f(global int* a) { a[0] = VALUE; }");
  v1::HeaderFile* header = request.add_headers();
  header->set_name("value.h");
  for (const int value : {7, 8}) {
    header->set_content("#define VALUE " + std::to_string(value) + "\n");
    Host host = Open(MustCompile(request));
    const MemoryHandle memory = host.Memory(4);
    const std::vector<KernelArgument> arguments{BufferArgument(memory)};
    ASSERT_EQ(host.context->Launch(host.queue,
                                   LaunchOf(host.Kernel("f"), {1, 1, 1}, {1, 1, 1}, arguments)),
              absl::OkStatus());
    EXPECT_EQ(host.Read<int>(memory, 1)[0], value);
  }
}

TEST_F(CompilerTest, WhatItCannotCompileIsTyped) {
  v1::CompileRequest request = Source("kernel void f() {}");
  request.set_architecture("sm_90a");
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::UNSUPPORTED_ARCHITECTURE);
  request.clear_architecture();
  request.mutable_manifest()->set_language("cuda-c++");
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::UNSUPPORTED_LANGUAGE);
  request.mutable_manifest()->set_language("opencl-c");
  request.set_device_index(9);
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::UNKNOWN_DEVICE);
}

TEST_F(CompilerTest, ADeviceBinaryIsTakenAndGarbageIsNot) {
  const v1::Artifact compiled = MustCompile(Source("kernel void f(global int* a) { a[0] = 5; }"));
  v1::CompileRequest request = Source("");
  request.mutable_manifest()->set_language("binary");
  request.set_source(compiled.binary());
  const v1::Artifact again = MustCompile(request);
  ASSERT_EQ(again.kernels_size(), 1);
  EXPECT_EQ(again.kernels(0).entry(), "f");
  EXPECT_EQ(again.kernels(0).arguments_size(), 1);
  EXPECT_EQ(again.binary(), compiled.binary());
  request.set_source("certainly no program");
  EXPECT_EQ(ReasonOf(Compile(request).status()), v1::UNSUPPORTED_ARCHITECTURE);
}

}  // namespace
}  // namespace kcache::backend::opencl
