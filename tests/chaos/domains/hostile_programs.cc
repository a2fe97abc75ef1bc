#include "tests/chaos/domains/hostile_programs.h"

#include <optional>

#include "absl/strings/str_cat.h"

namespace kcache::domains {
namespace {

const CompileTarget* Find(const std::vector<CompileTarget>& targets, const std::string& framework) {
  for (const CompileTarget& target : targets) {
    if (target.framework == framework) return &target;
  }
  return nullptr;
}

// #define NAME0 `leaf`, and each further one twice the one before: 2^levels leaves.
std::string Doubling(const std::string& name, const std::string& leaf, int levels) {
  std::string text = "#define " + name + "0 " + leaf + "\n";
  for (int i = 1; i <= levels; ++i) {
    absl::StrAppend(&text, "#define ", name, i, " ", name, i - 1, " ", name, i - 1, "\n");
  }
  return text;
}

std::string Repeated(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

const std::vector<Reason> kCrash = {Reason::kCompileCrashed, Reason::kCompileRefused};
const std::vector<Reason> kTooMuch = {Reason::kCompileTimeout, Reason::kCompileOutOfMemory,
                                      Reason::kCompileCrashed, Reason::kCompileFailed};
const std::vector<Reason> kRefused = {Reason::kCompileFailed, Reason::kBadRequest};

// Instantiates ever more of itself: 2^50 types.
constexpr char kTemplates[] = R"(
template <int depth, long which> struct Tree {
  static const long value =
      Tree<depth - 1, 2 * which>::value + Tree<depth - 1, 2 * which + 1>::value;
};
template <long which> struct Tree<0, which> { static const long value = which; };
__global__ void grow(long* out) { *out = Tree<50, 1>::value; }
)";

HostileProgram Taken(const CompileTarget& fake, std::string kind, std::string how,
                     const std::string& attempt) {
  HostileProgram program;
  program.kind = std::move(kind);
  program.how = std::move(how);
  program.target = fake;
  program.language = "fake";
  program.source = "pragma Compile@1 = attempt " + attempt + "\nkernel k(buffer x) {\n  x[i] = 1\n}\n";
  // The attempt fails the compile with what the kernel said.
  program.reasons = {Reason::kPermissionDenied};
  return program;
}

}  // namespace

HostileProgram EndlessProgram(const CompileTarget& opencl, const std::string& tag) {
  HostileProgram program;
  program.kind = "hang";
  program.how = "a condition of 2^60 terms";
  program.target = opencl;
  program.language = "opencl-c";
  // Conditions are evaluated as they are read: this takes no memory, only for ever.
  program.source = "// " + tag + "\n" + Doubling("T", "0 +", 60) + "#if T60 0\n#endif\n";
  // What clang keeps of each term may reach the limit on memory before the one on time.
  program.reasons = {Reason::kCompileTimeout, Reason::kCompileOutOfMemory};
  return program;
}

std::vector<HostileProgram> HostilePrograms(const HostileAims& aims,
                                            const std::vector<CompileTarget>& targets) {
  std::vector<HostileProgram> programs;
  const CompileTarget opencl = *Find(targets, "OpenCL");
  const CompileTarget fake = *Find(targets, "Fake");
  const CompileTarget* const cuda = Find(targets, "CUDA");
  const CompileTarget* const hip = Find(targets, "HIP");
  const auto add = [&](std::string kind, std::string how, const CompileTarget& target,
                       std::string source, std::vector<Reason> reasons) -> HostileProgram& {
    const std::string language = target.framework == "OpenCL" ? "opencl-c"
                                 : target.framework == "CUDA" ? "cuda-c++"
                                 : target.framework == "HIP"  ? "hip-c++"
                                                              : "fake";
    programs.push_back({.kind = std::move(kind),
                        .how = std::move(how),
                        .target = target,
                        .language = language,
                        .source = std::move(source),
                        .headers = {},
                        .reasons = std::move(reasons)});
    return programs.back();
  };

  add("crash", "an expression a million operators deep", opencl,
      "__kernel void k(__global int* x) { x[0] = " + Repeated("- ", 1'000'000) + "x[1]; }\n", kCrash);

  HostileProgram& itself = add("recursion", "a header that includes itself", opencl,
                               "#include \"again.h\"\n__kernel void k() {}\n", kTooMuch);
  itself.headers = {{"again.h", "#include \"again.h\"\n#include \"again.h\"\n"}};
  if (cuda != nullptr) add("recursion", "2^50 templates", *cuda, kTemplates, kTooMuch);
  if (hip != nullptr) add("recursion", "2^50 templates", *hip, kTemplates, kTooMuch);

  programs.push_back(EndlessProgram(opencl, "hostile"));

  add("memory", "an initializer of 2^30 elements", opencl,
      "__constant int numbers[1 << 30] = { [(1 << 30) - 1] = 1 };\n"
      "__kernel void k(__global int* x) { x[0] = numbers[x[1]]; }\n",
      {Reason::kCompileOutOfMemory});

  HostileProgram& log = add("log", "2^40 warnings", opencl,
                            "#include \"0.h\"\n__kernel void k() {}\n", kTooMuch);
  for (int i = 0; i < 40; ++i) {
    const std::string next = absl::StrCat("#include \"", i + 1, ".h\"\n");
    log.headers.emplace_back(absl::StrCat(i, ".h"), next + next);
  }
  log.headers.emplace_back("40.h", "#warning " + std::string(400, 'w') + "\n");

  programs.push_back(Taken(fake, "fork-bomb", "processes without end", "fork"));
  programs.back().reasons = kCrash;

  programs.push_back(Taken(fake, "write", "into kcached's state", "write " + aims.state_directory + "/x"));
  programs.push_back(Taken(fake, "write", "into the system", "write /usr/lib/kcache-was-here"));

  for (const CompileTarget* target : {&opencl, cuda, hip}) {
    if (target == nullptr) continue;
    const std::string kernel =
        target == &opencl ? "__kernel void k() {}\n" : "__global__ void k() {}\n";
    for (const std::string& file : {std::string("/etc/passwd"), aims.secret_file}) {
      add("include", "an absolute #include of " + file, *target,
          "#include \"" + file + "\"\n" + kernel, kRefused)
          .secret = file == aims.secret_file ? aims.secret : "root:";
    }
  }
  // PoCL keeps the assembler's text and assembles it in the host, as the user himself.
  HostileProgram& incbin = add("include", "the assembler's .incbin of a file", opencl,
      "__kernel void k(__global int* x) {\n  __asm__ volatile(\".pushsection .rodata\\n.incbin \\\"" +
          aims.secret_file + "\\\"\\n.popsection\");\n  x[0] = 1;\n}\n",
      {Reason::kCompileFailed, Reason::kCompileCrashed, Reason::kCompileRefused});
  incbin.secret = aims.secret;
  incbin.may_compile = true;

  programs.push_back(Taken(fake, "network", "a connection to this machine",
                           absl::StrCat("connect ", aims.port)));

  programs.push_back(Taken(fake, "device", "a device node", "device /dev/kmsg"));

  programs.push_back(
      Taken(fake, "signal", "SIGKILL for kcached", absl::StrCat("signal ", aims.daemon)));
  programs.push_back(
      Taken(fake, "signal", "kcached under a debugger", absl::StrCat("trace ", aims.daemon)));

  programs.push_back(Taken(fake, "snoop", "the directory of another compile",
                           "list " + aims.other_directory));
  return programs;
}

}  // namespace kcache::domains
