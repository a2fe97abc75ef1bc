#include "tests/chaos/kernels.h"

#include "absl/strings/str_cat.h"

namespace kcache::chaos {
namespace {

std::string FakeSource(uint32_t number, Temper temper) {
  std::string source;
  if (temper == Temper::kKillsCompiler) absl::StrAppend(&source, "pragma Compile@* = segv\n");
  absl::StrAppend(&source, "kernel advance(buffer x, scalar u32 n, scalar u32 salt) {\n");
  if (temper == Temper::kFaults) absl::StrAppend(&source, "  fault\n");
  if (temper == Temper::kBadCompile) absl::StrAppend(&source, "  x[i] = nonsense + 1\n");
  absl::StrAppend(&source, "  x[i] = x[i] * 3 + salt + ", number, "\n}\n");
  return source;
}

std::string OpenClSource(uint32_t number, Temper temper) {
  return absl::StrCat(
      "__kernel void advance(__global uint* x, uint n, uint salt) {\n"
      "  size_t i = get_global_id(0);\n",
      temper == Temper::kBadCompile ? "  x[i] = nonsense + 1;\n" : "",
      "  if (i < n) x[i] = x[i] * 3u + salt + ", number, "u;\n}\n");
}

}  // namespace

uint32_t ProgramsOf(std::string_view family) {
  return family == "Fake" ? kFakePrograms : kOpenClPrograms;
}

absl::StatusOr<Program> MakeProgram(std::string_view family, uint32_t number, Temper temper) {
  if (family == "Fake") return Program::FromSource("fake", FakeSource(number, temper));
  return Program::FromSource("opencl-c", OpenClSource(number, temper));
}

uint32_t Expected(uint32_t value, uint32_t launches, uint32_t salt, uint32_t number) {
  for (uint32_t i = 0; i < launches; ++i) value = value * 3 + salt + number;
  return value;
}

}  // namespace kcache::chaos
