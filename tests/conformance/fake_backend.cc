// The suite in the fake's own language: the template for a port, and the suite's own test.

#include "tests/conformance/backend.h"

namespace kcache::conformance {
namespace {

KernelSource Source(std::string entry, std::string source) {
  return {.language = "fake", .source = std::move(source), .entry = std::move(entry)};
}

std::map<Role, KernelSource> Kernels() {
  std::map<Role, KernelSource> kernels;
  kernels[Role::kVectorAdd] = Source("vector_add", R"(
kernel vector_add(buffer f32 a, buffer f32 b, buffer f32 sum, scalar u32 n) {
  sum[i] = a[i] + b[i]
}
)");
  kernels[Role::kSaxpy] = Source("saxpy", R"(
kernel saxpy(buffer f32 x, buffer f32 y, scalar u32 n, scalar f32 a) {
  y[i] = y[i] + a * x[i]
}
)");
  kernels[Role::kIndex3d] = Source("index3d", R"(
kernel index3d(buffer out) {
  out[i] = z * 1000000 + y * 1000 + x
}
)");
  kernels[Role::kReduce] = Source("reduce", R"(
kernel reduce(buffer in, buffer out) {
  out[group] = out[group] + in[i]
}
)");
  kernels[Role::kReduceDynamic] = Source("reduce_dynamic", R"(
kernel reduce_dynamic(buffer in, buffer out, local tile) {
  out[group] = out[group] + in[i]
}
)");
  kernels[Role::kTwoEntries] = Source("first", R"(
kernel first(buffer out) {
  out[i] = 2 * i
}
kernel second(buffer out) {
  out[i] = 3 * i
}
)");
  kernels[Role::kHeader] = Source("scaled", R"(
include "scale.h"
kernel scaled(buffer out) {
  out[i] = HEADER_SCALE * i + OFFSET
}
)");
  kernels[Role::kSpecialized] = Source("specialized", R"(
constant FACTOR 3 = 2
kernel specialized(buffer out) {
  out[i] = FACTOR * i
}
)");
  kernels[Role::kIncrement] = Source("increment", R"(
kernel increment(buffer data) {
  data[i] = data[i] + 1
}
)");
  kernels[Role::kSetFlag] = Source("set_flag", R"(
kernel set_flag(buffer flag) {
  flag[0] = 1
}
)");
  kernels[Role::kAwaitFlag] = Source("await_flag", R"(
kernel await_flag(buffer flag, buffer out, scalar u32 most) {
  await flag[0]
  out[0] = 1
}
)");
  kernels[Role::kEndless] = Source("endless", R"(
kernel endless(buffer flag) {
  await flag[0]
}
)");
  kernels[Role::kFault] = Source("fault", R"(
kernel fault(buffer out, scalar u64 address) {
  out[0] = 1
  fault
}
)");
  kernels[Role::kCompileError] = Source("broken", R"(
kernel broken(buffer out) {
  out[0] = undeclared_name
}
)");
  return kernels;
}

}  // namespace

Backend FakeBackend() {
  Backend backend;
  backend.name = "Fake";
  backend.framework = "Fake";
  backend.kernels = Kernels();
  backend.flag_flags = {"-ignored"};
  backend.header = [](uint32_t scale) {
    return "constant HEADER_SCALE 77 = " + std::to_string(scale) + "\n";
  };
  backend.driver_variable = "KCACHE_FAKE_DRIVER";
  backend.driver_place = "/etc/passwd";  // any file: its first line plays the driver's version
  backend.compile_architecture = "fake-1";
  backend.artifact_format = "fake";
  backend.exclusions = {
      {"Compile.FlagsReachTheCompiler", "the fake's compiler has no flags"},
      {"Compile.UnknownFlagIsAnError", "the fake's compiler has no flags"},
      {"Compile.TemplateInstantiation", "the fake's language has no templates"},
      {"CompileOnly.TemplateLoweredNames", "the fake's language has no templates"},
      {"Launch.ScalarsOfSeveralSizes", "the fake's language cannot take a number apart"},
      {"Launch.UnalignedBytes", "the fake's elements have 4 bytes"},
      {"Launch.PushConstants", "the fake has no push constants"},
      {"Invalidation.FamilyEventReachesTheVariant", "the fake has no variants"},
  };
  return backend;
}

}  // namespace kcache::conformance
