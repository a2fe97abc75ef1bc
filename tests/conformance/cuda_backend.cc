// CUDA C++ kernels of the suite, for CUDA (cubin), CUDA/PTX and HIP: one text for all of them.

#include "tests/conformance/backend.h"

namespace kcache::conformance {
namespace {

// Dialect of one compiler for C++ kernels.
std::map<Role, KernelSource> Kernels(const std::string& language) {
  std::map<Role, KernelSource> kernels;
  const auto add = [&](Role role, std::string entry, std::string source) {
    kernels[role] = {.language = language, .source = std::move(source), .entry = std::move(entry)};
  };
  add(Role::kVectorAdd, "vector_add", R"(
extern "C" __global__ void vector_add(const float* a, const float* b, float* sum, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) sum[i] = a[i] + b[i];
}
)");
  add(Role::kSaxpy, "saxpy", R"(
extern "C" __global__ void saxpy(const float* x, float* y, unsigned n, float a) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
)");
  add(Role::kIndex3d, "index3d", R"(
extern "C" __global__ void index3d(unsigned* out) {
  unsigned x = blockIdx.x * blockDim.x + threadIdx.x;
  unsigned y = blockIdx.y * blockDim.y + threadIdx.y;
  unsigned z = blockIdx.z * blockDim.z + threadIdx.z;
  unsigned nx = gridDim.x * blockDim.x, ny = gridDim.y * blockDim.y;
  out[(z * ny + y) * nx + x] = z * 1000000u + y * 1000u + x;
}
)");
  add(Role::kReduce, "reduce", R"(
extern "C" __global__ void reduce(const unsigned* in, unsigned* out) {
  __shared__ unsigned tile[64];
  unsigned l = threadIdx.x;
  tile[l] = in[blockIdx.x * blockDim.x + l];
  for (unsigned step = 32; step > 0; step /= 2) {
    __syncthreads();
    if (l < step) tile[l] += tile[l + step];
  }
  if (l == 0) out[blockIdx.x] = tile[0];
}
)");
  add(Role::kReduceDynamic, "reduce_dynamic", R"(
extern "C" __global__ void reduce_dynamic(const unsigned* in, unsigned* out) {
  extern __shared__ unsigned tile[];
  unsigned l = threadIdx.x;
  tile[l] = in[blockIdx.x * blockDim.x + l];
  for (unsigned step = 32; step > 0; step /= 2) {
    __syncthreads();
    if (l < step) tile[l] += tile[l + step];
  }
  if (l == 0) out[blockIdx.x] = tile[0];
}
)");
  add(Role::kBytes, "bytes", R"(
extern "C" __global__ void bytes(unsigned char* out, unsigned offset, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[offset + i] = (unsigned char)(7 * i + 3);
}
)");
  add(Role::kTwoEntries, "first", R"(
extern "C" __global__ void first(unsigned* out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 2 * i;
}
extern "C" __global__ void second(unsigned* out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 3 * i;
}
)");
  add(Role::kHeader, "scaled", R"(
#include "scale.h"
extern "C" __global__ void scaled(unsigned* out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = HEADER_SCALE * i + OFFSET;
}
)");
  add(Role::kFlag, "flagged", R"(
extern "C" __global__ void flagged(unsigned* out) { out[0] = __cplusplus < 201703L ? 1 : 0; }
)");
  add(Role::kScalars, "scalars", R"(
extern "C" __global__ void scalars(unsigned* out, unsigned a, float b, unsigned long long c) {
  out[0] = a;
  out[1] = __float_as_uint(b);
  out[2] = (unsigned)c;
  out[3] = (unsigned)(c >> 32);
}
)");
  add(Role::kTemplate, "fill<5>", R"(
template <int N>
__global__ void fill(unsigned* out) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = N * i;
}
)");
  kernels[Role::kTemplate].name_expressions = {"fill<5>"};
  add(Role::kIncrement, "increment", R"(
extern "C" __global__ void increment(unsigned* data) {
  data[blockIdx.x * blockDim.x + threadIdx.x] += 1;
}
)");
  add(Role::kSetFlag, "set_flag", R"(
extern "C" __global__ void set_flag(unsigned* flag) { atomicExch(flag, 1u); }
)");
  add(Role::kAwaitFlag, "await_flag", R"(
extern "C" __global__ void await_flag(unsigned* flag, unsigned* out, unsigned most) {
  unsigned seen = 2;
  for (unsigned i = 0; i < most && seen == 2; ++i) {
    if (atomicAdd(flag, 0u) != 0) seen = 1;
  }
  out[0] = seen;
}
)");
  add(Role::kEndless, "endless", R"(
extern "C" __global__ void endless(unsigned* flag) {
  while (atomicAdd(flag, 0u) == 0) {
  }
}
)");
  add(Role::kFault, "fault", R"(
extern "C" __global__ void fault(unsigned* out, unsigned long long address) {
  out[0] = 1;
  *(volatile unsigned*)address = 1;
}
)");
  add(Role::kCompileError, "broken", R"(
extern "C" __global__ void broken(unsigned* out) { out[0] = undeclared_name; }
)");
  return kernels;
}

Backend CudaLike(std::string name, std::string framework, const std::string& language) {
  Backend backend;
  backend.name = std::move(name);
  backend.framework = std::move(framework);
  backend.kernels = Kernels(language);
  backend.flag_flags = {"--std=c++14"};
  backend.exclusions = {
      {"Launch.SpecializationConstants", "C++ kernels have templates instead"},
      {"Launch.PushConstants", "this API passes arguments by value"},
  };
  return backend;
}

}  // namespace

Backend CudaBackend() {
  Backend backend = CudaLike("CUDA", "CUDA", "cuda-c++");
  backend.compile_architecture = "sm_90a";
  backend.artifact_format = "cubin";
  return backend;
}

Backend CudaPtxBackend() {
  Backend backend = CudaLike("CUDA/PTX", "CUDA/PTX", "cuda-c++");
  backend.compile_architecture = "sm_90a";
  backend.artifact_format = "ptx";
  return backend;
}

Backend HipBackend() {
  Backend backend = CudaLike("HIP", "HIP", "hip-c++");
  backend.compile_architecture = "gfx90a";
  backend.kernels[Role::kFlag].source = R"(
extern "C" __global__ void flagged(unsigned* out) {
#ifdef __FAST_MATH__
  out[0] = 1;
#else
  out[0] = 0;
#endif
}
)";
  backend.flag_flags = {"-ffast-math"};
  backend.artifact_format = "code-object";
  backend.exclusions.push_back(
      {"Invalidation.FamilyEventReachesTheVariant", "HIP has no variants"});
  backend.adapt = [](const std::vector<DeviceInfo>& devices, Backend* adapted) {
    if (!devices[0].architecture.starts_with("sm_")) return;
    // On NVIDIA's platform the compiler is CUDA's.
    const Backend cuda = CudaBackend();
    adapted->kernels[Role::kFlag].source = cuda.kernels.at(Role::kFlag).source;
    adapted->flag_flags = cuda.flag_flags;
    adapted->compile_architecture = cuda.compile_architecture;
    adapted->artifact_format = cuda.artifact_format;
  };
  return backend;
}

}  // namespace kcache::conformance
