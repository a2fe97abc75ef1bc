// The smallest program: adds two vectors on the first device that compiles OpenCL C (or, with the
// argument "fake", on the scriptable fake device that needs no GPU).
//
//   hello [DEVICE]        e.g. hello OpenCL:0; the daemon is found as ClientOptions::socket says

#include <iostream>
#include <string>
#include <vector>

#include "kcache/client.h"

namespace {

constexpr char kSource[] = R"(
__kernel void add(__global const float* a, __global const float* b, __global float* sum) {
  const size_t i = get_global_id(0);
  sum[i] = a[i] + b[i];
})";

// The first device whose compiler takes OpenCL C, or the one that is named.
absl::StatusOr<kcache::DeviceId> PickDevice(kcache::Client& client, const std::string& name) {
  absl::StatusOr<kcache::DeviceList> list = client.ListDevices();
  if (!list.ok()) return list.status();
  for (const kcache::DeviceInfo& device : list->devices) {
    if (!name.empty() && device.id.ToString() != name) continue;
    for (const std::string& language : device.languages) {
      if (language == "opencl-c") return device.id;
    }
  }
  return absl::NotFoundError("no device " + name + " that takes OpenCL C");
}

absl::Status Run(const std::string& device_name) {
  auto client = kcache::Client::Connect({.name = "hello"});
  if (!client.ok()) return client.status();
  auto device = PickDevice(**client, device_name);
  if (!device.ok()) return device.status();

  auto program = kcache::Program::FromSource("opencl-c", kSource);
  if (!program.ok()) return program.status();
  auto add = (*client)->Acquire({.program = *program, .entry = "add", .device = *device});
  if (!add.ok()) return add.status();

  constexpr uint32_t kCount = 1024;
  const std::vector<float> a(kCount, 1.0f), b(kCount, 2.0f);
  std::vector<float> sum(kCount);
  auto queue = (*client)->GetQueue(*device);
  if (!queue.ok()) return queue.status();
  kcache::Buffer buffers[3];
  for (kcache::Buffer& buffer : buffers) {
    auto allocated = (*client)->Allocate(*device, kCount * sizeof(float));
    if (!allocated.ok()) return allocated.status();
    buffer = *std::move(allocated);
  }

  // Queued in order; the read at the end waits for all of it and reports the first failure.
  absl::Status status = buffers[0].Write(*queue, a);
  status.Update(buffers[1].Write(*queue, b));
  status.Update(add->Launch(*queue, kcache::LaunchConfig::Global(kCount), buffers[0], buffers[1],
                            buffers[2]));
  status.Update(buffers[2].Read(*queue, &sum));
  if (!status.ok()) return status;
  for (const float value : sum) {
    if (value != 3.0f) return absl::DataLossError("wrong sum: " + std::to_string(value));
  }
  std::cout << "added " << kCount << " numbers on " << *device << " (kernel "
            << kcache::OriginName(add->origin()) << ")\n";
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  const absl::Status status = Run(argc > 1 ? argv[1] : "");
  if (status.ok()) return 0;
  std::cerr << "hello: " << status << " [" << kcache::ReasonName(kcache::FailureReason(status))
            << "]\n";
  return 1;
}
