// Launching through the daemon's device host beside launching natively: an empty kernel, the same
// OpenCL device, in turns.

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <cstdio>
#include <vector>

#include "tests/bench/bench.h"
#include "tests/bench/samples.h"
#include "tests/support/private_daemon.h"

namespace kcache::bench {
namespace {

constexpr int kRounds = 12, kDiscardedRounds = 2;
constexpr int kPipelined = 20000;
constexpr int kSynchronized = 300;

constexpr char kEntry[] = "nothing";
constexpr uint64_t kBufferBytes = 256;

struct Text {
  const char* title;
  const char* source;
  bool takes_buffer;
};
constexpr Text kEmpty = {"empty kernel", "__kernel void nothing() {}", false};
// For a driver that refuses that one as kcache builds it (with -cl-kernel-arg-info): it does nothing
// either, which the compiler cannot know.
constexpr Text kIdle = {
    "kernel that does nothing",
    "__kernel void nothing(__global uint* never) { if (get_global_size(0) == 0) never[0] = 1; }",
    true};

// The same kernel without kcache. Its argument is set once.
class Native {
 public:
  bool Open(const Text& text) {
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    if (clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) != CL_SUCCESS) {
      return false;
    }
    cl_int error = CL_SUCCESS;
    context_ = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error);
    if (error != CL_SUCCESS) return false;
    queue_ = clCreateCommandQueue(context_, device, 0, &error);
    program_ = clCreateProgramWithSource(context_, 1, const_cast<const char**>(&text.source),
                                         nullptr, &error);
    if (clBuildProgram(program_, 1, &device, "", nullptr, nullptr) != CL_SUCCESS) return false;
    kernel_ = clCreateKernel(program_, kEntry, &error);
    if (error != CL_SUCCESS) return false;
    if (text.takes_buffer) {
      buffer_ = clCreateBuffer(context_, CL_MEM_READ_WRITE, kBufferBytes, nullptr, &error);
      if (error != CL_SUCCESS ||
          clSetKernelArg(kernel_, 0, sizeof buffer_, &buffer_) != CL_SUCCESS) {
        return false;
      }
    }
    return Launch(1) && clFinish(queue_) == CL_SUCCESS;
  }
  ~Native() {
    if (buffer_ != nullptr) clReleaseMemObject(buffer_);
    if (kernel_ != nullptr) clReleaseKernel(kernel_);
    if (program_ != nullptr) clReleaseProgram(program_);
    if (queue_ != nullptr) clReleaseCommandQueue(queue_);
    if (context_ != nullptr) clReleaseContext(context_);
  }
  bool Launch(int count) {
    const size_t global = 1, local = 1;
    for (int i = 0; i < count; ++i) {
      if (clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &global, &local, 0, nullptr,
                                 nullptr) != CL_SUCCESS) {
        return false;
      }
    }
    return true;
  }
  bool Finish() { return clFinish(queue_) == CL_SUCCESS; }

 private:
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_program program_ = nullptr;
  cl_kernel kernel_ = nullptr;
  cl_mem buffer_ = nullptr;
};

}  // namespace

int Launch(const std::string&) {
  auto daemon = testing::PrivateDaemon::Start({});
  if (!daemon.ok()) return Failed("starting the daemon", daemon.status());
  auto client = Client::Connect({.socket = (*daemon)->socket(), .name = "bench"});
  if (!client.ok()) return Failed("connecting", client.status());
  auto device = PickDevice(client->get(), "OpenCL");
  if (!device) return Failed("devices", absl::NotFoundError("there is no OpenCL device"));
  const auto acquire = [&](const Text& text) {
    return (*client)->Acquire({.program = Program::FromSource("opencl-c", text.source).value(),
                               .entry = kEntry,
                               .device = *device});
  };
  const Text* text = &kEmpty;
  auto kernel = acquire(*text);
  if (!kernel.ok()) {
    std::printf("an empty kernel is refused here: %s\n", kernel.status().ToString().c_str());
    text = &kIdle;
    kernel = acquire(*text);
  }
  if (!kernel.ok()) return Failed("acquiring", kernel.status());
  Native native;
  if (!native.Open(*text)) {
    return Failed("native OpenCL", absl::InternalError("cannot open a device"));
  }
  auto buffer = (*client)->Allocate(*device, kBufferBytes);
  if (!buffer.ok()) return Failed("allocating", buffer.status());
  auto queue = (*client)->GetQueue(*device);
  if (!queue.ok()) return Failed("queue", queue.status());
  const LaunchConfig config = LaunchConfig::Grid({1}, {1});
  const auto launch = [&] {
    return text->takes_buffer ? kernel->Launch(*queue, config, *buffer)
                              : kernel->Launch(*queue, config);
  };

  Samples native_rate, rate, native_sync, sync;
  for (int round = 0; round < kRounds; ++round) {
    const bool counted = round >= kDiscardedRounds;
    Stopwatch native_watch;
    if (!native.Launch(kPipelined) || !native.Finish()) {
      return Failed("native launch", absl::InternalError("failed"));
    }
    if (counted) native_rate.Add(kPipelined / native_watch.Microseconds() * 1e6);
    Stopwatch watch;
    for (int i = 0; i < kPipelined; ++i) {
      if (absl::Status status = launch(); !status.ok()) {
        return Failed("launching", status);
      }
    }
    if (absl::Status status = queue->Synchronize(); !status.ok()) {
      return Failed("synchronizing", status);
    }
    if (counted) rate.Add(kPipelined / watch.Microseconds() * 1e6);
    for (int i = 0; i < kSynchronized; ++i) {
      Stopwatch one;
      native.Launch(1);
      native.Finish();
      if (counted) native_sync.Add(one.Microseconds());
    }
    for (int i = 0; i < kSynchronized; ++i) {
      Stopwatch one;
      absl::Status status = launch();
      if (status.ok()) status = queue->Synchronize();
      if (!status.ok()) return Failed("launching", status);
      if (counted) sync.Add(one.Microseconds());
    }
  }
  const double throughput = rate.p50() / native_rate.p50();
  const double sync_ratio = sync.p50() / native_sync.p50();
  std::printf("%-30s %14s %14s %8s\n", text->title, "native", "kcache", "ratio");
  std::printf("%-30s %14.0f %14.0f %8.2f\n", "launches a second, pipelined", native_rate.p50(),
              rate.p50(), throughput);
  std::printf("%-30s %11.1f us %11.1f us %8.2f\n", "launch + synchronize, p50", native_sync.p50(),
              sync.p50(), sync_ratio);
  std::printf("%-30s %11.1f us %11.1f us\n", "launch + synchronize, p99", native_sync.p99(),
              sync.p99());
  std::printf("summary: throughput_ratio=%.3f sync_ratio=%.3f\n", throughput, sync_ratio);
  return 0;
}

}  // namespace kcache::bench
