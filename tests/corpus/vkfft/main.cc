// corpus_vkfft: Fourier transforms by VkFFT, whose generated kernels are compiled and run through the
// daemon at $KCACHE_SOCKET, or one of its own, on OpenCL:0; results against a transform computed
// here. One line for each plan; last `summary: key=value …`. Exit status 0: none did.

#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#define VKFFT_BACKEND 3

#include <vkFFT.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <complex>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numbers>
#include <string>
#include <vector>

#include "tests/corpus/vkfft/opencl_over_kcache.h"
#include "tests/support/private_daemon.h"

namespace kcache::corpus {
namespace {

using Value = std::complex<float>;

struct Plan {
  size_t x = 1, y = 1;
  size_t batches = 1;

  std::string name() const {
    std::string text = std::to_string(x);
    if (y > 1) text += "x" + std::to_string(y);
    if (batches > 1) text += ", " + std::to_string(batches) + " at once";
    return text;
  }
  size_t values() const { return x * y * batches; }
};

// Powers of two and of other radices, mixed ones, primes (Rader's and Bluestein's algorithms), sizes
// that take more than one kernel, planes, batches.
std::vector<Plan> Plans() {
  std::vector<Plan> plans;
  for (const size_t size : {2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 16, 17, 19, 27, 32, 49, 64, 97, 100,
                            121, 125, 128, 169, 210, 243, 256, 343, 360, 512, 729, 1000, 1009, 1024,
                            2048, 3125, 4096, 8192}) {
    plans.push_back({.x = size});
  }
  for (const size_t size : {16, 60, 128, 256}) plans.push_back({.x = size, .batches = 7});
  for (const auto& [x, y] : {std::pair<size_t, size_t>{16, 16}, {64, 32}, {30, 42}, {128, 128},
                             {17, 8}, {100, 75}}) {
    plans.push_back({.x = x, .y = y});
  }
  return plans;
}

// One line of `count` values, `stride` apart, by the definition.
void TransformLine(std::vector<std::complex<double>>* values, size_t first, size_t count,
                   size_t stride) {
  std::vector<std::complex<double>> roots(count);
  for (size_t k = 0; k < count; ++k) {
    roots[k] = std::polar(1.0, -2 * std::numbers::pi * static_cast<double>(k) /
                                   static_cast<double>(count));
  }
  std::vector<std::complex<double>> line(count);
  for (size_t k = 0; k < count; ++k) {
    size_t at = 0;
    for (size_t i = 0; i < count; ++i) {
      line[k] += (*values)[first + i * stride] * roots[at];
      at += k;
      if (at >= count) at -= count;
    }
  }
  for (size_t k = 0; k < count; ++k) (*values)[first + k * stride] = line[k];
}

std::vector<std::complex<double>> Transformed(const Plan& plan, const std::vector<Value>& in) {
  std::vector<std::complex<double>> values(in.begin(), in.end());
  for (size_t batch = 0; batch < plan.batches; ++batch) {
    const size_t start = batch * plan.x * plan.y;
    for (size_t y = 0; y < plan.y; ++y) TransformLine(&values, start + y * plan.x, plan.x, 1);
    if (plan.y == 1) continue;
    for (size_t x = 0; x < plan.x; ++x) TransformLine(&values, start + x, plan.y, plan.x);
  }
  return values;
}

// The largest difference, as a part of the largest value.
template <class A, class B>
double Difference(const std::vector<A>& got, const std::vector<B>& expected) {
  double most = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const std::complex<double> exact(expected[i]);
    const double one = std::abs(std::complex<double>(got[i]) - exact);
    if (!(one <= difference)) difference = one;  // NaN, too
    most = std::max(most, std::abs(exact));
  }
  return difference / most;
}

// An application of VkFFT's with everything it holds.
class Transform {
 public:
  explicit Transform(OpenClOverKcache* opencl) : opencl_(opencl) {}
  ~Transform() {
    if (made_) deleteVkFFT(&application_);
    if (memory_ != nullptr) opencl_->Release(memory_);
  }

  absl::Status Make(const Plan& plan) {
    bytes_ = plan.values() * sizeof(Value);
    memory_ = opencl_->Allocate(bytes_);
    if (memory_ == nullptr) return opencl_->failure();
    device_ = opencl_->device();
    context_ = opencl_->context();
    VkFFTConfiguration configuration = {};
    configuration.FFTdim = plan.y > 1 ? 2 : 1;
    configuration.size[0] = plan.x;
    configuration.size[1] = plan.y;
    configuration.numberBatches = plan.batches;
    configuration.normalize = 1;
    configuration.device = &device_;
    configuration.context = &context_;
    configuration.buffer = &memory_;
    configuration.bufferSize = &bytes_;
    absl::Status status = Say(initializeVkFFT(&application_, configuration), "making the plan");
    made_ = status.ok();
    return status;
  }

  // `direction`: -1 forward, 1 inverse, as VkFFT counts.
  absl::Status Run(int direction, const std::vector<Value>& in, std::vector<Value>* out) {
    absl::Status status = opencl_->Write(memory_, in.data(), bytes_);
    if (!status.ok()) return status;
    cl_command_queue queue = opencl_->queue();
    VkFFTLaunchParams launch = {};
    launch.commandQueue = &queue;
    launch.buffer = &memory_;
    status = Say(VkFFTAppend(&application_, direction, &launch), "running it");
    if (!status.ok()) return status;
    out->assign(in.size(), Value(NAN, NAN));
    return opencl_->Read(memory_, out->data(), bytes_);
  }

 private:
  absl::Status Say(VkFFTResult result, const char* doing) {
    if (result == VKFFT_SUCCESS) return absl::OkStatus();
    if (!opencl_->failure().ok()) return opencl_->failure();
    return absl::InternalError("VkFFT's error " + std::to_string(result) + " while " + doing);
  }

  OpenClOverKcache* const opencl_;
  VkFFTApplication application_ = {};
  bool made_ = false;
  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_mem memory_ = nullptr;
  uint64_t bytes_ = 0;
};

absl::Status Check(OpenClOverKcache* opencl, const Plan& plan) {
  constexpr double kTolerance = 2e-5;  // of single precision, over a few passes
  std::vector<Value> in(plan.values());
  for (size_t i = 0; i < in.size(); ++i) {
    const auto part = [](size_t n) { return static_cast<float>(n * 2654435761u % 2000) / 1000 - 1; };
    in[i] = {part(2 * i), part(2 * i + 1)};
  }
  Transform transform(opencl);
  if (absl::Status status = transform.Make(plan); !status.ok()) return status;
  std::vector<Value> out, back;
  if (absl::Status status = transform.Run(-1, in, &out); !status.ok()) return status;
  if (const double off = Difference(out, Transformed(plan, in)); !(off <= kTolerance)) {
    return absl::DataLossError("the transform is off by " + std::to_string(off));
  }
  if (absl::Status status = transform.Run(1, out, &back); !status.ok()) return status;
  if (const double off = Difference(back, in); !(off <= kTolerance)) {
    return absl::DataLossError("there and back is off by " + std::to_string(off));
  }
  return absl::OkStatus();
}

int Main() {
  const auto start = std::chrono::steady_clock::now();
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  std::unique_ptr<testing::PrivateDaemon> daemon;
  ClientOptions options;
  options.name = "corpus_vkfft";
  if (std::getenv("KCACHE_SOCKET") == nullptr) {
    auto started = testing::PrivateDaemon::Start({});
    if (!started.ok()) {
      std::fprintf(stderr, "%s\n", started.status().ToString().c_str());
      return 1;
    }
    daemon = *std::move(started);
    options.socket = daemon->socket();
  }
  auto client = Client::Connect(options);
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", client.status().ToString().c_str());
    return 1;
  }
  auto list = (*client)->ListDevices();
  const DeviceInfo* device = nullptr;
  if (list.ok()) {
    for (const DeviceInfo& one : list->devices) {
      if (one.id == DeviceId{"OpenCL", 0}) device = &one;
    }
  }
  if (device == nullptr) {
    std::fprintf(stderr, "there is no OpenCL:0\n");
    return 1;
  }
  const std::vector<Plan> plans = Plans();
  int failed = 0, programs = 0, launches = 0;
  for (const Plan& plan : plans) {
    // A new one each, so that one plan's failure is not the next one's.
    OpenClOverKcache opencl(client->get(), *device);
    const absl::Status status = Check(&opencl, plan);
    if (status.ok()) {
      std::printf("ok %s: %d kernels, %d launches\n", plan.name().c_str(), opencl.programs(),
                  opencl.launches());
    } else {
      ++failed;
      std::printf("FAILED %s: %s\n", plan.name().c_str(), status.ToString().c_str());
    }
    programs += opencl.programs();
    launches += opencl.launches();
  }
  (*client)->Close();
  const absl::Status stopped = daemon != nullptr ? daemon->Stop() : absl::OkStatus();
  if (!stopped.ok()) std::printf("FAILED to stop: %s\n", stopped.ToString().c_str());
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("summary: plans=%zu failed=%d kernels=%d launches=%d seconds=%.1f\n", plans.size(),
              failed, programs, launches, took.count());
  return failed == 0 && programs > 0 && stopped.ok() ? 0 : 1;
}

}  // namespace
}  // namespace kcache::corpus

int main() { return kcache::corpus::Main(); }
