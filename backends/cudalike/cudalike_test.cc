// The small rules that the CUDA and HIP backends share: flags, relative includes, fills, arguments.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "backends/cudalike/compile_flags.h"
#include "backends/cudalike/elf_view.h"
#include "backends/cudalike/fill_pattern.h"
#include "backends/cudalike/launch_arguments.h"
#include "backends/cudalike/relative_includes.h"
#include "backends/cudalike/rtc_program.h"
#include "contract/error_reason.h"

namespace kcache::backend::cudalike {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::ProgramManifest WithFlag(const std::string& flag) {
  v1::ProgramManifest manifest;
  manifest.add_flags(flag);
  return manifest;
}

TEST(CompileFlags, DefinesComeFirstAndFlagsKeepTheirOrder) {
  v1::ProgramManifest manifest = WithFlag("--std=c++20");
  manifest.add_flags("-lineinfo");
  manifest.add_defines()->set_name("BARE");
  manifest.add_defines()->set_name("EMPTY");
  manifest.mutable_defines(1)->set_value("");
  manifest.add_defines()->set_name("MAX(a,b)");
  manifest.mutable_defines(2)->set_value("((a) > (b) ? (a) : (b))");
  const auto options = CompileOptions(manifest, {});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_THAT(*options, ElementsAre("-DBARE", "-DEMPTY=", "-DMAX(a,b)=((a) > (b) ? (a) : (b))",
                                    "--std=c++20", "-lineinfo"));
}

TEST(CompileFlags, APathOnTheCallersDiskNeverReachesTheCompiler) {
  for (const char* flag :
       {"-I/etc", "-I /etc", "--include-path=/home/me", "-Iinclude", "-isystem/usr/include",
        "-include=/etc/passwd", "--pre-include=x.h", "@options.txt", "--pch-dir=/tmp",
        "--some-option=/etc/passwd", "-I/toolkit/include/../../etc", "/etc/passwd"}) {
    const auto options = CompileOptions(WithFlag(flag), {"/toolkit/include"});
    EXPECT_EQ(ReasonOf(options.status()), v1::BAD_REQUEST) << flag;
    EXPECT_THAT(std::string(options.status().message()), HasSubstr("is not accepted")) << flag;
  }
}

TEST(CompileFlags, ToolkitDirectoriesCanBeSearched) {
  for (const char* flag : {"-I/toolkit/include", "--include-path=/toolkit/include/cub"}) {
    EXPECT_TRUE(CompileOptions(WithFlag(flag), {"/toolkit/include"}).ok()) << flag;
  }
  EXPECT_FALSE(CompileOptions(WithFlag("-I/toolkit/includes"), {"/toolkit/include"}).ok());
}

TEST(CompileFlags, TheDaemonChoosesArchitectureAndOutput) {
  for (const char* flag : {"--gpu-architecture=sm_80", "-arch=sm_80", "--offload-arch=gfx90a",
                           "-rdc=true", "--relocatable-device-code=true", "-dlto", "-Xclang"}) {
    EXPECT_EQ(ReasonOf(CompileOptions(WithFlag(flag), {}).status()), v1::BAD_REQUEST) << flag;
  }
  EXPECT_TRUE(CompileOptions(WithFlag("-rdc=false"), {}).ok());
}

TEST(CompileFlags, ADefineIsTheNameOfAMacro) {
  for (const char* name : {"", "1X", "A=B", "A B", "-I"}) {
    v1::ProgramManifest manifest;
    manifest.add_defines()->set_name(name);
    EXPECT_EQ(ReasonOf(CompileOptions(manifest, {}).status()), v1::BAD_REQUEST) << name;
  }
}

v1::HeaderFile Header(const std::string& name, const std::string& content) {
  v1::HeaderFile header;
  header.set_name(name);
  header.set_content(content);
  return header;
}

TEST(RelativeIncludes, AHeaderFindsItsNeighbours) {
  const auto resolved = ResolveRelativeIncludes(
      {Header("k/a.h",
              "#pragma once\n  #  include \"b.h\" // here\n#include \"../c.h\"\n"
              "#include <b.h>\n#include \"k/b.h\"\n#include \"unknown.h\"\n"),
       Header("k/b.h", "int b;"), Header("c.h", "int c;")});
  EXPECT_EQ(resolved[0].content(),
            "#pragma once\n  #  include \"k/b.h\" // here\n#include \"c.h\"\n"
            "#include <b.h>\n#include \"k/b.h\"\n#include \"unknown.h\"\n");
  EXPECT_EQ(resolved[1].content(), "int b;");
}

TEST(RelativeIncludes, TheNeighbourWinsOverTheRoot) {
  const auto resolved = ResolveRelativeIncludes(
      {Header("k/a.h", "#include \"b.h\""), Header("k/b.h", ""), Header("b.h", "")});
  EXPECT_EQ(resolved[0].content(), "#include \"k/b.h\"");
}

TEST(RelativeIncludes, TheCompilersDiskIsNotRead) {
  const std::vector<v1::HeaderFile> headers = {Header("k/a.h", "#include \"../b.h\"\n"),
                                               Header("b.h", "")};
  const std::vector<std::string> toolkit = {"/toolkit/include"};
  for (const char* fine :
       {"#include \"k/a.h\"\n#include <cub/cub.cuh>", "#include </toolkit/include/cuda_fp16.h>",
        "#include \"k/../b.h\"", "// #include \"/etc/passwd\"", "#include MACRO"}) {
    EXPECT_TRUE(CheckIncludes(fine, headers, toolkit).ok()) << fine;
  }
  for (const char* refused :
       {"#include \"/etc/passwd\"", "int a;\n # include </etc/passwd>", "#include \"../b.h\"",
        "#include_next \"/etc/passwd\"", "#include \"/toolkit/include/../../etc/passwd\"",
        "#include \"cub/../../../etc/passwd\"", "#include \"/toolkit/included.h\""}) {
    const absl::Status status = CheckIncludes(refused, headers, toolkit);
    EXPECT_EQ(ReasonOf(status), v1::COMPILE_FAILED) << refused;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the source includes")) << refused;
  }
  const absl::Status header = CheckIncludes("", {Header("x.h", "#include \"/etc/passwd\"")}, {});
  EXPECT_THAT(std::string(header.message()), HasSubstr("the header \"x.h\" includes"));
}

TEST(RelativeIncludes, Normalizing) {
  EXPECT_EQ(JoinNormalized("a/b", "../c/./d.h"), "a/c/d.h");
  EXPECT_EQ(JoinNormalized("", "d.h"), "d.h");
  EXPECT_EQ(JoinNormalized("a", "../../d.h"), "");
}

std::string Carry(const FillPlan& plan, uint64_t bytes) {
  std::string result;
  if (plan.width != 0) {
    for (uint64_t i = 0; i < plan.count; ++i) {
      result.append(reinterpret_cast<const char*>(&plan.value), plan.width);
    }
    return result;
  }
  result = plan.seed;
  while (result.size() < bytes) {
    result += result.substr(0, std::min<uint64_t>(result.size(), bytes - result.size()));
  }
  return result;
}

TEST(FillPattern, EveryPatternAtEveryAlignmentWritesWhatItSays) {
  const std::string bytes = "0123456789abcdef";
  for (const size_t pattern_bytes : {1, 2, 4, 8, 16}) {
    for (const uint64_t repeats : {1, 3, 257, 5000}) {
      for (const uint64_t address : {0, 1, 2, 3, 4, 8}) {
        for (const std::string& pattern :
             {bytes.substr(0, pattern_bytes), std::string(pattern_bytes, 'z')}) {
          std::string expected;
          for (uint64_t i = 0; i < repeats; ++i) expected += pattern;
          const FillPlan plan = PlanFill(address, expected.size(), pattern);
          EXPECT_EQ(Carry(plan, expected.size()), expected) << pattern << " × " << repeats;
          EXPECT_TRUE(plan.width == 0 || address % plan.width == 0);
          EXPECT_LE(plan.seed.size(), std::max<uint64_t>(kSeedBytes, pattern_bytes));
        }
      }
    }
  }
}

TEST(FillPattern, OneByteRepeatedIsAMemsetWhateverThePatternsSize) {
  EXPECT_EQ(PlanFill(3, 160, std::string(16, '\0')).width, 1U);
}

class LaunchArgumentsTest : public testing::Test {
 protected:
  absl::Status Pack(const std::vector<KernelArgument>& arguments, bool known,
                    const std::vector<uint64_t>& sizes) {
    return packed_.Pack(arguments, known, sizes,
                        [](MemoryHandle memory, uint64_t offset) -> absl::StatusOr<DeviceAddress> {
                          if (memory != 7) return absl::NotFoundError("no such memory");
                          return 0x1000 + offset;
                        });
  }
  static KernelArgument Scalar(std::string_view bytes) {
    KernelArgument argument;
    argument.scalar = bytes;
    return argument;
  }
  static KernelArgument Buffer(MemoryHandle memory, uint64_t offset) {
    KernelArgument argument;
    argument.kind = KernelArgument::Kind::kBuffer;
    argument.memory = memory;
    argument.offset = offset;
    return argument;
  }
  LaunchArguments packed_;
};

TEST_F(LaunchArgumentsTest, BuffersBecomeAddressesAndScalarsStayWhereTheyAre) {
  const std::string scalar = "abcd";
  ASSERT_TRUE(Pack({Buffer(7, 16), Scalar(scalar)}, true, {8, 4}).ok());
  DeviceAddress address = 0;
  std::memcpy(&address, packed_.pointers()[0], sizeof(address));
  EXPECT_EQ(address, 0x1010U);
  EXPECT_EQ(packed_.pointers()[1], scalar.data());
}

TEST_F(LaunchArgumentsTest, CountAndSizesAreChecked) {
  EXPECT_EQ(ReasonOf(Pack({Scalar("abcd")}, true, {4, 4})), v1::INVALID_ARGUMENTS);
  const absl::Status wrong = Pack({Scalar("abc")}, true, {4});
  EXPECT_EQ(ReasonOf(wrong), v1::INVALID_ARGUMENTS);
  EXPECT_THAT(std::string(wrong.message()),
              HasSubstr("argument 0 has 3 bytes, the kernel takes 4"));
  EXPECT_FALSE(Pack({Buffer(8, 0)}, true, {8}).ok());
}

TEST_F(LaunchArgumentsTest, LocalMemoryAndImagesAreNotArgumentsHere) {
  for (const auto kind : {KernelArgument::Kind::kLocalMemory, KernelArgument::Kind::kImage,
                          KernelArgument::Kind::kSampler}) {
    KernelArgument argument;
    argument.kind = kind;
    EXPECT_EQ(ReasonOf(Pack({argument}, false, {})), v1::INVALID_ARGUMENTS);
  }
}

TEST_F(LaunchArgumentsTest, UnknownSizesNeverReadBeyondWhatIsOurs) {
  ASSERT_TRUE(Pack({Buffer(7, 1), Scalar("xy")}, false, {}).ok());
  EXPECT_EQ(std::memcmp(packed_.pointers()[1], "xy\0\0\0\0\0\0", 8), 0);
  // The driver may read as many parameters, as long, as a kernel can have.
  char parameter[LaunchArguments::kMaxParameterBytes];
  for (size_t i = 0; i < LaunchArguments::kMaxParameters; ++i) {
    std::memcpy(parameter, packed_.pointers()[i], sizeof(parameter));
  }
  EXPECT_EQ(parameter[0], 0);
}

TEST(RtcProgram, ALongLogIsCutAndSaysSo) {
  EXPECT_EQ(LimitLog("0123456789", 0), "0123456789");
  EXPECT_EQ(LimitLog("0123456789", 10), "0123456789");
  const std::string log(1000, 'x');
  const std::string cut = LimitLog(log, 100);
  EXPECT_LE(cut.size(), 100U);
  EXPECT_THAT(cut, HasSubstr("xxx\n[9"));
  EXPECT_THAT(cut, HasSubstr("more bytes of log]"));
  EXPECT_EQ(LimitLog(log, 4), "xxxx");  // no room to say so
}

TEST(RtcProgram, KernelsAreKnownByTheirNameExpressions) {
  std::vector<v1::KernelInfo> kernels(2);
  kernels[0].set_lowered_name("_Z1kIfEvv");
  kernels[1].set_lowered_name("plain");
  const auto named =
      NameKernels(kernels, {{"k<float>", "_Z1kIfEvv"}, {"&k<float>", "_Z1kIfEvv"}, {"var", "v"}});
  std::vector<std::string> entries;
  for (const auto& kernel : named) entries.push_back(kernel.entry());
  EXPECT_THAT(entries, ElementsAre("k<float>", "&k<float>", "plain"));
}

TEST(ElfView, WhatIsNotAnElfFileIsRefused) {
  EXPECT_FALSE(ElfView::Parse("").ok());
  EXPECT_FALSE(ElfView::Parse(std::string(100, 'x')).ok());
  std::string header(64, '\0');
  header.replace(0, 6, "\177ELF\002\001");
  EXPECT_TRUE(ElfView::Parse(header).ok());  // no sections at all
  header[0x28] = 1;                          // section headers at 1, beyond the end
  header[0x3a] = 64;
  EXPECT_FALSE(ElfView::Parse(header).ok());
}

}  // namespace
}  // namespace kcache::backend::cudalike
