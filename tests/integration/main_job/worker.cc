// One client process of the integration tests: waits for its standard input to close (a barrier that
// lets many go at once), acquires one kernel, launches it, checks it, and says what it got:
// "ok ORIGIN" or "failed REASON".

#include <unistd.h>

#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "kcache/client.h"

namespace {

int Say(const std::string& what) {
  std::puts(what.c_str());
  return what.starts_with("ok") ? 0 : 1;
}

int Failed(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return Say("failed " + std::string(kcache::ReasonName(kcache::FailureReason(status))));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string source = std::string("// ") + argv[2] + R"(
__kernel void add_one(__global const uint* in, __global uint* out) {
  out[get_global_id(0)] = in[get_global_id(0)] + 1;
}
)";
  auto client = kcache::Client::Connect({.socket = argv[1], .name = "worker"});
  if (!client.ok()) return Failed(client.status());
  auto program = kcache::Program::FromSource("opencl-c", source);
  if (!program.ok()) return Failed(program.status());
  char byte;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  const kcache::DeviceId device{"OpenCL", 0};
  auto kernel = (*client)->Acquire({.program = *program, .entry = "add_one", .device = device});
  if (!kernel.ok()) return Failed(kernel.status());
  auto queue = (*client)->GetQueue(device);
  if (!queue.ok()) return Failed(queue.status());
  constexpr uint32_t kCount = 4096;
  std::vector<uint32_t> in(kCount), out(kCount);
  std::iota(in.begin(), in.end(), static_cast<uint32_t>(getpid()));
  auto a = (*client)->Allocate(device, kCount * sizeof(uint32_t));
  auto b = (*client)->Allocate(device, kCount * sizeof(uint32_t));
  if (!a.ok()) return Failed(a.status());
  if (!b.ok()) return Failed(b.status());
  absl::Status status = a->Write(*queue, in);
  if (status.ok()) {
    status = kernel->Launch(*queue, kcache::LaunchConfig::Global({kCount}, {64}), *a, *b);
  }
  if (status.ok()) status = b->Read(*queue, &out);
  if (!status.ok()) return Failed(status);
  for (uint32_t i = 0; i < kCount; ++i) {
    if (out[i] != in[i] + 1) return Say("failed WRONG_RESULT");
  }
  return Say("ok " + std::string(kcache::OriginName(kernel->origin())));
}
