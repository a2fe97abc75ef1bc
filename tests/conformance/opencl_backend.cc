// OpenCL C kernels of the suite, for any OpenCL driver; here PoCL with two devices.

#include "tests/conformance/backend.h"

namespace kcache::conformance {
namespace {

KernelSource Source(std::string entry, std::string source) {
  return {.language = "opencl-c", .source = std::move(source), .entry = std::move(entry)};
}

std::map<Role, KernelSource> Kernels() {
  std::map<Role, KernelSource> kernels;
  kernels[Role::kVectorAdd] = Source("vector_add", R"(
kernel void vector_add(global const float* a, global const float* b, global float* sum, uint n) {
  size_t i = get_global_id(0);
  if (i < n) sum[i] = a[i] + b[i];
}
)");
  kernels[Role::kSaxpy] = Source("saxpy", R"(
kernel void saxpy(global const float* x, global float* y, uint n, float a) {
  size_t i = get_global_id(0);
  if (i < n) y[i] += a * x[i];
}
)");
  kernels[Role::kIndex3d] = Source("index3d", R"(
kernel void index3d(global uint* out) {
  uint x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
  out[(z * get_global_size(1) + y) * get_global_size(0) + x] = z * 1000000 + y * 1000 + x;
}
)");
  kernels[Role::kReduce] = Source("reduce", R"(
kernel void reduce(global const uint* in, global uint* out) {
  local uint tile[64];
  uint l = get_local_id(0);
  tile[l] = in[get_global_id(0)];
  for (uint step = 32; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < step) tile[l] += tile[l + step];
  }
  if (l == 0) out[get_group_id(0)] = tile[0];
}
)");
  kernels[Role::kReduceDynamic] = Source("reduce_dynamic", R"(
kernel void reduce_dynamic(global const uint* in, global uint* out, local uint* tile) {
  uint l = get_local_id(0);
  tile[l] = in[get_global_id(0)];
  for (uint step = 32; step > 0; step /= 2) {
    barrier(CLK_LOCAL_MEM_FENCE);
    if (l < step) tile[l] += tile[l + step];
  }
  if (l == 0) out[get_group_id(0)] = tile[0];
}
)");
  kernels[Role::kBytes] = Source("bytes", R"(
kernel void bytes(global uchar* out, uint offset, uint n) {
  uint i = get_global_id(0);
  if (i < n) out[offset + i] = (uchar)(7 * i + 3);
}
)");
  kernels[Role::kTwoEntries] = Source("first", R"(
kernel void first(global uint* out) { out[get_global_id(0)] = 2 * get_global_id(0); }
kernel void second(global uint* out) { out[get_global_id(0)] = 3 * get_global_id(0); }
)");
  kernels[Role::kHeader] = Source("scaled", R"(
#include "scale.h"
kernel void scaled(global uint* out) {
  out[get_global_id(0)] = HEADER_SCALE * get_global_id(0) + OFFSET;
}
)");
  kernels[Role::kFlag] = Source("flagged", R"(
kernel void flagged(global uint* out) {
#ifdef __FAST_RELAXED_MATH__
  out[0] = 1;
#else
  out[0] = 0;
#endif
}
)");
  kernels[Role::kScalars] = Source("scalars", R"(
kernel void scalars(global uint* out, uint a, float b, ulong c) {
  out[0] = a;
  out[1] = as_uint(b);
  out[2] = (uint)c;
  out[3] = (uint)(c >> 32);
}
)");
  kernels[Role::kIncrement] = Source("increment", R"(
kernel void increment(global uint* data) { data[get_global_id(0)] += 1; }
)");
  kernels[Role::kSetFlag] = Source("set_flag", R"(
kernel void set_flag(global volatile uint* flag) { atomic_xchg(flag, 1u); }
)");
  kernels[Role::kAwaitFlag] = Source("await_flag", R"(
kernel void await_flag(global volatile uint* flag, global uint* out, uint most) {
  uint seen = 2;
  for (uint i = 0; i < most && seen == 2; ++i) {
    if (atomic_add(flag, 0u) != 0) seen = 1;
  }
  out[0] = seen;
}
)");
  kernels[Role::kEndless] = Source("endless", R"(
kernel void endless(global volatile uint* flag) {
  while (atomic_add(flag, 0u) == 0) {
  }
}
)");
  kernels[Role::kFault] = Source("fault", R"(
kernel void fault(global uint* out, ulong address) {
  out[0] = 1;
  *(global volatile uint*)address = 1;
}
)");
  kernels[Role::kCompileError] = Source("broken", R"(
kernel void broken(global uint* out) { out[0] = undeclared_name; }
)");
  return kernels;
}

}  // namespace

Backend OpenClBackend() {
  Backend backend;
  backend.name = "OpenCL";
  backend.framework = "OpenCL";
  backend.kernels = Kernels();
  backend.flag_flags = {"-cl-fast-relaxed-math"};
  backend.artifact_format = "";
  backend.environment = {{"POCL_DEVICES", "pthread pthread"}};
  backend.driver_variable = "OCL_ICD_VENDORS";
  backend.driver_place = "/etc/OpenCL/vendors";
  const std::string no_device = "OpenCL compiles on the device it compiles for";
  backend.exclusions = {
      {"CompileOnly.*", no_device},
      {"Launch.SpecializationConstants", "OpenCL C has no specialization constants"},
      {"Launch.PushConstants", "OpenCL has no push constants"},
      {"Compile.TemplateInstantiation", "OpenCL C has no templates"},
      {"Invalidation.FamilyEventReachesTheVariant", "OpenCL has no variants"},
  };
  return backend;
}

}  // namespace kcache::conformance
