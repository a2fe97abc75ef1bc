// An application as quickstart.sh runs it, three times: leases a kernel, launches it on real data,
// checks the result against the CPU, and reports what it is told. Steps come as lines on standard
// input, so that the script can let several processes take one at the same moment; each is
// answered by one line "key=value …" on standard output.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "kcache/client.h"

namespace {

constexpr uint32_t kCount = 1u << 20;
constexpr float kScale = 2.5f;

// Each run has a tag of its own in the source, so that the first acquire is cold even where an
// OpenCL driver keeps a cache.
std::string Source(const std::string& tag) {
  return "// " + tag + R"(
#define STEPS 16
__kernel void relax(__global const float* in, __global float* out, float scale, uint n) {
  const uint i = get_global_id(0);
  if (i >= n) return;
  float x = in[i];
  for (int step = 0; step < STEPS; ++step) x = 0.5f * (x + scale / x);
  out[i] = x;
}
)";
}

double Milliseconds(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

void Say(const std::string& line) {
  std::fputs((line + "\n").c_str(), stdout);
  std::fflush(stdout);
}

std::string Number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", value);
  return text;
}

class Job {
 public:
  Job(std::string tag, std::shared_ptr<kcache::Client> client, kcache::DeviceId device)
      : client_(std::move(client)), device_(std::move(device)) {
    program_ = kcache::Program::FromSource("opencl-c", Source(tag)).value();
    cleared_ = client_->OnClearAll([this](const kcache::ClearEvent& event) {
      // In "before", the handle is still whole: it can be used a last time.
      if (event.phase == kcache::EventPhase::kBefore) {
        ++before_;
        usable_before_ = kernel_ && kernel_->valid();
      } else {
        ++after_;
      }
      return absl::OkStatus();
    });
    destroyed_ = client_->OnDeviceDestroy([this](const kcache::DeviceEvent& event) {
      event.phase == kcache::EventPhase::kBefore ? ++destroy_before_ : ++destroy_after_;
      return absl::OkStatus();
    });
  }

  absl::Status Acquire() {
    const auto start = std::chrono::steady_clock::now();
    auto kernel = client_->Acquire({.program = program_, .entry = "relax", .device = device_});
    if (!kernel.ok()) return kernel.status();
    const double took = Milliseconds(std::chrono::steady_clock::now() - start);
    kernel_ = *std::move(kernel);
    Say("acquired ms=" + Number(took) +
        " origin=" + std::string(kcache::OriginName(kernel_->origin())));
    return absl::OkStatus();
  }

  // A lease that is warm at the daemon but not remembered here: one round trip.
  absl::Status WarmLease() {
    kernel_.reset();
    client_->ForgetKernels();
    return Acquire();
  }

  absl::Status Launch() {
    if (!kernel_) return absl::FailedPreconditionError("acquire first");
    auto queue = client_->GetQueue(device_);
    if (!queue.ok()) return queue.status();
    std::vector<float> in(kCount), out(kCount, -1.0f);
    for (uint32_t i = 0; i < kCount; ++i) in[i] = 1.0f + static_cast<float>((i * 2654435761u) >> 20);
    auto in_buffer = client_->Allocate(device_, kCount * sizeof(float), {.label = "in"});
    if (!in_buffer.ok()) return in_buffer.status();
    auto out_buffer = client_->Allocate(device_, kCount * sizeof(float), {.label = "out"});
    if (!out_buffer.ok()) return out_buffer.status();
    in_ = *std::move(in_buffer);
    out_ = *std::move(out_buffer);
    absl::Status status = in_.Write(*queue, in);
    if (!status.ok()) return status;
    if (status = queue->Synchronize(); !status.ok()) return status;
    const auto start = std::chrono::steady_clock::now();
    status = LaunchOnce(*queue);
    if (!status.ok()) return status;
    if (status = queue->Synchronize(); !status.ok()) return status;
    const double took = Milliseconds(std::chrono::steady_clock::now() - start);
    if (status = out_.Read(*queue, &out); !status.ok()) return status;
    for (uint32_t i = 0; i < kCount; ++i) {
      float x = in[i];
      for (int step = 0; step < 16; ++step) x = 0.5f * (x + kScale / x);
      if (!(std::fabs(out[i] - x) <= 1e-5f * std::fabs(x))) {
        return absl::DataLossError("element " + std::to_string(i) + " is " + std::to_string(out[i]) +
                                   ", the CPU says " + std::to_string(x));
      }
    }
    Say("launched ms=" + Number(took) + " elements=" + std::to_string(kCount) + " verified=1");
    return absl::OkStatus();
  }

  // Launches with the lease it has, whatever became of it, and says why that is refused.
  void LaunchStale() {
    auto queue = client_->GetQueue(device_);
    absl::Status status = queue.status();
    if (status.ok()) {
      status = kernel_ ? LaunchOnce(*queue) : absl::FailedPreconditionError("acquire first");
    }
    if (status.ok()) status = queue->Synchronize();
    Say("stale refused=" + std::to_string(status.ok() ? 0 : 1) +
        " reason=" + std::string(kcache::ReasonName(kcache::FailureReason(status))));
  }

  void Told() {
    Say("told before=" + std::to_string(before_) + " after=" + std::to_string(after_) +
        " usable_before=" + std::to_string(usable_before_ ? 1 : 0) +
        " destroy_before=" + std::to_string(destroy_before_) +
        " destroy_after=" + std::to_string(destroy_after_));
  }

 private:
  absl::Status LaunchOnce(const kcache::Queue& queue) {
    return kernel_->Launch(queue, kcache::LaunchConfig::Global({kCount}, {256}), in_, out_, kScale,
                           kCount);
  }

  const std::shared_ptr<kcache::Client> client_;
  const kcache::DeviceId device_;
  kcache::Program program_;
  std::optional<kcache::Kernel> kernel_;
  kcache::Buffer in_, out_;
  std::atomic<int> before_{0}, after_{0}, destroy_before_{0}, destroy_after_{0};
  std::atomic<bool> usable_before_{false};
  kcache::Registration cleared_, destroyed_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s NAME TAG   (steps on standard input)\n", argv[0]);
    return 2;
  }
  auto client = kcache::Client::Connect({.name = argv[1]});
  if (!client.ok()) {
    std::fprintf(stderr, "%s\n", std::string(client.status().message()).c_str());
    return 1;
  }
  auto devices = (*client)->ListDevices();
  if (!devices.ok()) {
    std::fprintf(stderr, "%s\n", std::string(devices.status().message()).c_str());
    return 1;
  }
  std::optional<kcache::DeviceId> device;
  for (const kcache::DeviceInfo& info : devices->devices) {
    if (info.id.framework == "OpenCL" && !device) device = info.id;
  }
  if (!device) {
    std::fprintf(stderr, "no OpenCL device\n");
    return 1;
  }
  Job job(argv[2], *client, *device);
  Say("connected pid=" + std::to_string(getpid()));
  std::string step;
  while (std::getline(std::cin, step)) {
    absl::Status status;
    if (step == "acquire") {
      status = job.Acquire();
    } else if (step == "warm") {
      status = job.WarmLease();
    } else if (step == "launch") {
      status = job.Launch();
    } else if (step == "stale") {
      job.LaunchStale();
    } else if (step == "told") {
      job.Told();
    } else {
      status = absl::InvalidArgumentError("no step \"" + step + "\"");
    }
    if (!status.ok()) {
      Say("failed reason=" + std::string(kcache::ReasonName(kcache::FailureReason(status))));
      std::fprintf(stderr, "%s: %s: %s\n", argv[1], step.c_str(),
                   std::string(status.message()).c_str());
      return 1;
    }
  }
  return 0;
}
