// A real pipeline: C = A × B with a tiled kernel, then the sum of C by a reduction, many times over
// on two buffers, checked against the CPU. It survives clears and destroys of its device: the
// memoized pipeline is dropped when the daemon says so, and built again at the next round.
//
//   matmul [ROUNDS]

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "kcache/client.h"

namespace {

constexpr uint32_t kSize = 128, kTile = 16, kGroups = 32, kGroupSize = 64;

constexpr char kSource[] = R"(
__kernel void multiply(__global const float* a, __global const float* b, __global float* c, uint n,
                       __local float* tiles) {
  __local float* ta = tiles;
  __local float* tb = tiles + TILE * TILE;
  const uint x = get_local_id(0), y = get_local_id(1);
  const uint column = get_global_id(0), row = get_global_id(1);
  float sum = 0.0f;
  for (uint t = 0; t < n; t += TILE) {
    ta[y * TILE + x] = a[row * n + t + x];
    tb[y * TILE + x] = b[(t + y) * n + column];
    barrier(CLK_LOCAL_MEM_FENCE);
    for (uint k = 0; k < TILE; ++k) sum += ta[y * TILE + k] * tb[k * TILE + x];
    barrier(CLK_LOCAL_MEM_FENCE);
  }
  c[row * n + column] = sum;
}
__kernel void reduce(__global const float* in, __global float* out, uint n, __local float* part) {
  const uint local_id = get_local_id(0);
  float sum = 0.0f;
  for (uint i = get_global_id(0); i < n; i += get_global_size(0)) sum += in[i];
  part[local_id] = sum;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (local_id != 0) return;
  for (uint i = 1; i < get_local_size(0); ++i) sum += part[i];
  out[get_group_id(0)] = sum;
})";

// What is memoized over kernels: exactly what listeners have to drop.
struct Pipeline {
  kcache::Kernel multiply, reduce;
  kcache::Buffer a, b, c, sums;
};

#define RETURN_IF_ERROR(expression) \
  if (absl::Status status = (expression); !status.ok()) return status

absl::StatusOr<Pipeline> Build(kcache::Client& client, const kcache::Queue& queue,
                               const kcache::Program& program, const std::vector<float>& a,
                               const std::vector<float>& b) {
  const kcache::KernelRequest requests[] = {
      {.program = program, .entry = "multiply", .device = queue.device()},
      {.program = program, .entry = "reduce", .device = queue.device()}};
  auto kernels = client.AcquireBatch(requests);
  for (const auto& kernel : kernels) RETURN_IF_ERROR(kernel.status());
  Pipeline pipeline;
  pipeline.multiply = *kernels[0];
  pipeline.reduce = *kernels[1];
  for (kcache::Buffer* buffer : {&pipeline.a, &pipeline.b, &pipeline.c, &pipeline.sums}) {
    auto allocated = client.Allocate(queue.device(), kSize * kSize * sizeof(float));
    RETURN_IF_ERROR(allocated.status());
    *buffer = *std::move(allocated);
  }
  RETURN_IF_ERROR(pipeline.a.Write(queue, a));
  RETURN_IF_ERROR(pipeline.b.Write(queue, b));
  return pipeline;
}

absl::StatusOr<double> Round(const Pipeline& p, const kcache::Queue& queue) {
  // A teardown waits until these launches are in.
  const auto use_multiply = p.multiply.Use(), use_reduce = p.reduce.Use();
  RETURN_IF_ERROR(use_multiply.status());
  RETURN_IF_ERROR(use_reduce.status());
  RETURN_IF_ERROR(p.multiply.Launch(
      queue, kcache::LaunchConfig::Grid({kSize / kTile, kSize / kTile}, {kTile, kTile}), p.a, p.b,
      p.c, kSize, kcache::LocalMemory{2 * kTile * kTile * sizeof(float)}));
  RETURN_IF_ERROR(p.reduce.Launch(queue, kcache::LaunchConfig::Grid(kGroups, kGroupSize), p.c,
                                  p.sums, kSize * kSize,
                                  kcache::LocalMemory{kGroupSize * sizeof(float)}));
  std::vector<float> sums(kGroups);
  RETURN_IF_ERROR(p.sums.Read(queue, &sums));
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

absl::Status Run(int rounds) {
  auto client = kcache::Client::Connect({.name = "matmul"});
  RETURN_IF_ERROR(client.status());
  auto list = (*client)->ListDevices();
  RETURN_IF_ERROR(list.status());
  const auto device = std::find_if(list->devices.begin(), list->devices.end(), [](const auto& one) {
    return std::count(one.languages.begin(), one.languages.end(), "opencl-c") > 0;
  });
  if (device == list->devices.end()) return absl::NotFoundError("no device for OpenCL C");
  auto queue = (*client)->GetQueue(device->id);
  RETURN_IF_ERROR(queue.status());
  auto program = kcache::ProgramBuilder("opencl-c", kSource)
                     .Define("TILE", std::to_string(kTile))
                     .LaunchShape("multiply", {kTile, kTile})
                     .LaunchShape("reduce", kGroupSize)
                     .Build();
  RETURN_IF_ERROR(program.status());

  std::vector<float> a(kSize * kSize), b(kSize * kSize);
  for (uint32_t i = 0; i < kSize * kSize; ++i) {
    a[i] = static_cast<float>(i % 7);
    b[i] = static_cast<float>(i % 5);
  }
  // The sum of all of A × B is the dot product of A's column sums and B's row sums.
  double expected = 0.0;
  for (uint32_t k = 0; k < kSize; ++k) {
    double column = 0.0, row = 0.0;
    for (uint32_t i = 0; i < kSize; ++i) column += a[i * kSize + k];
    for (uint32_t i = 0; i < kSize; ++i) row += b[k * kSize + i];
    expected += column * row;
  }
  std::atomic<bool> stale{true};  // dropping is all that a listener may do
  const auto drop = [&](const auto& event) {
    if (event.Concerns(device->id)) stale = true;
    return absl::OkStatus();
  };
  const kcache::Registration on_destroy = (*client)->OnDeviceDestroy(drop);
  const kcache::Registration on_clear = (*client)->OnClearAll(drop);

  Pipeline pipeline;
  int built = 0;
  for (int round = 0, failures = 0; round < rounds;) {
    absl::Status ready;
    if (stale.exchange(false)) {
      absl::StatusOr<Pipeline> fresh = Build(**client, *queue, *program, a, b);
      ready = fresh.status();
      if (fresh.ok()) pipeline = *std::move(fresh), ++built;
    }
    const absl::StatusOr<double> sum = ready.ok() ? Round(pipeline, *queue) : ready;
    if (!sum.ok()) {  // revoked under our hands: once more with a new pipeline
      if (++failures > 100) return sum.status();
      stale = true;
      continue;
    }
    if (std::abs(*sum - expected) > expected * 1e-4) {
      return absl::DataLossError("sum " + std::to_string(*sum));
    }
    ++round;
  }
  std::cout << rounds << " rounds on " << device->id << ", pipeline built " << built
            << " times, sum " << expected << " matches the CPU\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? std::atoi(argv[1]) : 100);
  if (status.ok()) return 0;
  std::cerr << "matmul: " << status << "\n";
  return 1;
}
