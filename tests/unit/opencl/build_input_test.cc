#include "backends/opencl/build_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/opencl/argument_types.h"
#include "backends/opencl/include_check.h"
#include "contract/error_reason.h"

namespace kcache::backend::opencl {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<std::string> Options(const std::vector<std::string>& flags) {
  v1::ProgramManifest manifest;
  for (const std::string& flag : flags) manifest.add_flags(flag);
  return BuildOptions(manifest);
}

TEST(BuildInput, OrdinaryFlagsKeepTheirOrder) {
  const absl::StatusOr<std::string> options =
      Options({"-cl-fast-relaxed-math", "-w", "-D", "A=1", "-DB", "-U", "C", "-cl-std=CL1.2"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(*options,
            "-cl-kernel-arg-info -cl-fast-relaxed-math -w -DA=1 -DB -UC -cl-std=CL1.2 -Iinclude");
}

TEST(BuildInput, IncludePathsStayBelowTheHeaders) {
  EXPECT_THAT(*Options({"-I", "kernels", "-I."}), HasSubstr(" -Iinclude/kernels -Iinclude"));
  for (const char* path : {"/etc", "..", "a/../../b", "a//b", ""}) {
    const absl::Status status = Options({"-I", path}).status();
    EXPECT_EQ(ReasonOf(status), v1::BAD_REQUEST) << path;
  }
  EXPECT_EQ(ReasonOf(Options({"-I/etc"}).status()), v1::BAD_REQUEST);
}

TEST(BuildInput, FlagsThatReachOutAreRefusedByName) {
  for (const char* flag : {"-include", "-save-temps", "-Xclang", "@file", "-isystem", "-fplugin=x",
                           "-D", "-w -I/etc", "-DA=\"x\"", "-Wl,-rpath", "", "x.cl"}) {
    const absl::Status status = Options({flag}).status();
    EXPECT_EQ(ReasonOf(status), v1::BAD_REQUEST) << flag;
    EXPECT_THAT(std::string(status.message()), HasSubstr("build flag")) << flag;
  }
}

TEST(BuildInput, HeaderNamesAreRelative) {
  for (const char* name : {"a.h", "a/b/c.h", "...h", "a-b_c.cl"}) {
    EXPECT_EQ(ValidateHeaderName(name), absl::OkStatus()) << name;
  }
  for (const char* name :
       {"", "/a.h", "../a.h", "a/../b.h", "./a.h", "a//b.h", "a/", "a b.h", "a\\b.h"}) {
    EXPECT_EQ(ReasonOf(ValidateHeaderName(name)), v1::BAD_REQUEST) << name;
  }
}

TEST(BuildInput, DefinesAreOptionsUnlessTheyHaveBlanks) {
  v1::ProgramManifest manifest;
  EXPECT_EQ(*SourcePrelude(manifest), "");
  v1::Define* define = manifest.add_defines();
  define->set_name("A");
  define = manifest.add_defines();
  define->set_name("EMPTY");
  define->set_value("");
  EXPECT_EQ(*SourcePrelude(manifest), "");
  EXPECT_THAT(*BuildOptions(manifest), HasSubstr(" -DA -DEMPTY= "));
  define = manifest.add_defines();
  define->set_name("F(x)");
  define->set_value("(x + 1)");
  EXPECT_EQ(*SourcePrelude(manifest), "#define F(x) (x + 1)\n#line 1\n");
  EXPECT_THAT(*BuildOptions(manifest), ::testing::Not(HasSubstr("F(x)")));
  define->set_value("1\n#include \"/etc/passwd\"");
  EXPECT_EQ(ReasonOf(SourcePrelude(manifest).status()), v1::BAD_REQUEST);
}

TEST(BuildInput, TheHeaderOptionGoesByContentNotByOrder) {
  v1::CompileRequest request;
  EXPECT_EQ(HeaderOption(request), "");
  const auto add = [](v1::CompileRequest* to, const char* name, const char* content) {
    v1::HeaderFile* header = to->add_headers();
    header->set_name(name);
    header->set_content(content);
  };
  add(&request, "a", "bc");
  add(&request, "d", "e");
  v1::CompileRequest turned;
  add(&turned, "d", "e");
  add(&turned, "a", "bc");
  EXPECT_EQ(HeaderOption(request), HeaderOption(turned));
  turned.mutable_headers(0)->set_content("f");
  EXPECT_NE(HeaderOption(request), HeaderOption(turned));
}

absl::Status Check(const std::string& source, const char* header = "k/a.h",
                   const std::string& content = "") {
  v1::CompileRequest request;
  request.mutable_manifest()->set_language("opencl-c");
  request.set_source(source);
  v1::HeaderFile* file = request.add_headers();
  file->set_name(header);
  file->set_content(content);
  return CheckIncludes(request);
}

TEST(IncludeCheck, HeadersOfTheProgramPass) {
  for (const char* fine :
       {"#include \"k/a.h\"", "#include <a.h>\n", "  #  include \"k/../k/a.h\" // \"/etc/passwd\"",
        "// #include \"/etc/passwd\"", "/* \n#include \"/etc/passwd\"\n*/",
        "#define include \"/x\"", "constant char* s = \"//\"; /* #include </x> */",
        "int x = '\"'; // #include \"/x\"", ""}) {
    EXPECT_EQ(Check(fine), absl::OkStatus()) << fine;
  }
  EXPECT_EQ(Check("", "k/a.h", "#include \"../b.h\""), absl::OkStatus());
}

TEST(IncludeCheck, TheCompilersDiskIsNotRead) {
  for (const char* refused :
       {"#include \"/etc/passwd\"", "int a;\n # include </etc/passwd>", "#include \"../b.h\"",
        "#include_next \"/etc/passwd\"", "#import \"/etc/passwd\"",
        "#include \"k/../../etc/passwd\"", "#inc\\\nlude \"/etc/passwd\"",
        "#/**/include/**/\"/etc/passwd\"", "%:include \"/etc/passwd\"",
        "#define P \"/etc/passwd\"\n#include P", "/* a */ #include \"/etc/passwd\"",
        "constant char* s = \"/*\";\n#include \"/etc/passwd\"", "#include \"/etc/passwd"}) {
    const absl::Status status = Check(refused);
    EXPECT_EQ(ReasonOf(status), v1::BAD_REQUEST) << refused;
    EXPECT_THAT(std::string(status.message()), HasSubstr("the source")) << refused;
  }
  EXPECT_THAT(std::string(Check("", "x.h", "#include \"../y.h\"").message()),
              HasSubstr("the header \"x.h\" includes"));
}

TEST(ArgumentTypes, SizesAreThoseOfTheSpecification) {
  EXPECT_EQ(BuiltinTypeBytes("char"), 1U);
  EXPECT_EQ(BuiltinTypeBytes("unsigned int"), 4U);
  EXPECT_EQ(BuiltinTypeBytes("half8"), 16U);
  EXPECT_EQ(BuiltinTypeBytes("float3"), 16U);
  EXPECT_EQ(BuiltinTypeBytes("double16"), 128U);
  EXPECT_EQ(BuiltinTypeBytes("float5"), std::nullopt);
  EXPECT_EQ(BuiltinTypeBytes("float16x"), std::nullopt);
  EXPECT_EQ(BuiltinTypeBytes("unsigned int4"), std::nullopt);
  EXPECT_EQ(BuiltinTypeBytes("int32"), std::nullopt);
  EXPECT_EQ(BuiltinTypeBytes(""), std::nullopt);
  EXPECT_EQ(BuiltinTypeBytes("4"), std::nullopt);
}

}  // namespace
}  // namespace kcache::backend::opencl
