// Launching through the daemon's device host beside launching natively: a kernel that does nothing, the
// same OpenCL device, in turns.

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

// Does nothing, which the compiler cannot know. Not all have an assembler that takes a kernel without
// arguments and instructions together with -cl-kernel-arg-info, which kcache builds with.
constexpr char kEntry[] = "nothing";
constexpr char kSource[] =
    "__kernel void nothing(__global uint* never) { if (get_global_size(0) == 0) never[0] = 1; }";
constexpr uint64_t kBufferBytes = 256;

// The same kernel without kcache. Its argument is set once.
class Native {
 public:
  bool Open() {
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
    const char* source = kSource;
    program_ = clCreateProgramWithSource(context_, 1, &source, nullptr, &error);
    if (clBuildProgram(program_, 1, &device, "", nullptr, nullptr) != CL_SUCCESS) return false;
    kernel_ = clCreateKernel(program_, kEntry, &error);
    if (error != CL_SUCCESS) return false;
    buffer_ = clCreateBuffer(context_, CL_MEM_READ_WRITE, kBufferBytes, nullptr, &error);
    return error == CL_SUCCESS &&
           clSetKernelArg(kernel_, 0, sizeof buffer_, &buffer_) == CL_SUCCESS && Launch(1) &&
           clFinish(queue_) == CL_SUCCESS;
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
  Native native;
  if (!native.Open()) return Failed("native OpenCL", absl::InternalError("cannot open a device"));
  auto daemon = testing::PrivateDaemon::Start({});
  if (!daemon.ok()) return Failed("starting the daemon", daemon.status());
  auto client = Client::Connect({.socket = (*daemon)->socket(), .name = "bench"});
  if (!client.ok()) return Failed("connecting", client.status());
  auto device = PickDevice(client->get(), "OpenCL");
  if (!device) return Failed("devices", absl::NotFoundError("there is no OpenCL device"));
  auto program = Program::FromSource("opencl-c", kSource);
  if (!program.ok()) return Failed("the program", program.status());
  auto kernel = (*client)->Acquire({.program = *program, .entry = kEntry, .device = *device});
  if (!kernel.ok()) return Failed("acquiring", kernel.status());
  auto buffer = (*client)->Allocate(*device, kBufferBytes);
  if (!buffer.ok()) return Failed("allocating", buffer.status());
  auto queue = (*client)->GetQueue(*device);
  if (!queue.ok()) return Failed("queue", queue.status());
  const LaunchConfig config = LaunchConfig::Grid({1}, {1});

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
      if (absl::Status status = kernel->Launch(*queue, config, *buffer); !status.ok()) {
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
      absl::Status status = kernel->Launch(*queue, config, *buffer);
      if (status.ok()) status = queue->Synchronize();
      if (!status.ok()) return Failed("launching", status);
      if (counted) sync.Add(one.Microseconds());
    }
  }
  const double throughput = rate.p50() / native_rate.p50();
  const double sync_ratio = sync.p50() / native_sync.p50();
  std::printf("%-30s %14s %14s %8s\n", "a kernel that does nothing", "native", "kcache", "ratio");
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
