// The figures of a real GPU: what a first compile, a warm start, a load and a launch take with kcache and
// natively, how much device memory many processes use, and what a fault costs. Lines "name | value".

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "kcache/client.h"
#include "tests/bench/samples.h"
#include "tests/gpu/cuda_native.h"
#include "tests/support/private_daemon.h"

namespace kcache::gpu {
namespace {

using bench::Samples;
using bench::Stopwatch;
using testing::PrivateDaemon;

constexpr int kProcesses = 16;
constexpr uid_t kOtherUid = 4242;
const DeviceId kDevice{"CUDA", 0};

// `tag` makes it a program of its own.
Program Kernels(const std::string& tag) {
  return Program::FromSource("cuda-c++", "// " + tag + R"(
extern "C" __global__ void nothing() {}
extern "C" __global__ void add_one(const unsigned* in, unsigned* out, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] + 1;
}
extern "C" __global__ void illegal(unsigned* out) { *(volatile unsigned*)0xdead0000ull = *out; }
)").value();
}

void Row(const std::string& name, const std::string& value) {
  std::printf("%s|%s\n", name.c_str(), value.c_str());
  std::fflush(stdout);
}

std::string Text(const char* format, double a, double b = 0, double c = 0, double d = 0) {
  char text[160];
  std::snprintf(text, sizeof text, format, a, b, c, d);
  return text;
}

bool Good(const absl::Status& status, const char* what) {
  if (!status.ok()) std::fprintf(stderr, "%s: %s\n", what, status.ToString().c_str());
  return status.ok();
}

// Runs `body` in a child of this program; what it answers is its exit status.
pid_t Child(const std::vector<std::string>& words, int* out) {
  int pipes[2];
  if (pipe2(pipes, O_CLOEXEC) != 0) return -1;
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(pipes[1], STDOUT_FILENO);
    std::vector<char*> argv;
    for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(pipes[1]);
  *out = pipes[0];
  return pid;
}

std::string ReadLine(int fd) {
  std::string line;
  char byte;
  while (read(fd, &byte, 1) == 1 && byte != '\n') line += byte;
  return line;
}

double UsedMiB() {
  FILE* pipe = popen("nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i 0", "r");
  double used = -1;
  if (pipe != nullptr) {
    if (std::fscanf(pipe, "%lf", &used) != 1) used = -1;
    pclose(pipe);
  }
  return used;
}

// One whole start of a process: connect, lease, launch on real data, check.
absl::Status Job(Client* client, const Program& program) {
  auto kernel = client->Acquire({.program = program, .entry = "add_one", .device = kDevice});
  if (!kernel.ok()) return kernel.status();
  auto queue = client->GetQueue(kDevice);
  if (!queue.ok()) return queue.status();
  constexpr uint32_t kCount = 1024;
  std::vector<uint32_t> in(kCount, 41), out(kCount);
  auto a = client->Allocate(kDevice, kCount * 4);
  auto b = client->Allocate(kDevice, kCount * 4);
  if (!a.ok()) return a.status();
  if (!b.ok()) return b.status();
  absl::Status status = a->Write(*queue, in);
  if (status.ok()) {
    status = kernel->Launch(*queue, LaunchConfig::Grid({kCount / 256}, {256}), *a, *b, kCount);
  }
  if (status.ok()) status = b->Read(*queue, &out);
  if (!status.ok()) return status;
  return out[7] == 42 ? absl::OkStatus() : absl::DataLossError("wrong result");
}

int WarmChild(const std::string& socket, const std::string& tag) {
  Stopwatch watch;
  auto client = Client::Connect({.socket = socket});
  if (!Good(client.status(), "connect") || !Good(Job(client->get(), Kernels(tag)), "job")) return 1;
  std::printf("%.3f\n", watch.Microseconds() / 1000);
  std::fflush(stdout);
  pause();  // holds its leases until it is killed
  return 0;
}

int NativeChild(const std::string& cubin_file) {
  Stopwatch watch;
  FILE* file = std::fopen(cubin_file.c_str(), "rb");
  if (file == nullptr) return 1;
  std::string cubin(1 << 20, '\0');
  cubin.resize(std::fread(cubin.data(), 1, cubin.size(), file));
  std::fclose(file);
  auto native = CudaNative::Open();
  if (native == nullptr || !native->Load(cubin, "nothing") || !native->Launch(1) ||
      !native->Synchronize()) {
    return 1;
  }
  std::printf("%.3f\n", watch.Microseconds() / 1000);
  std::fflush(stdout);
  pause();
  return 0;
}

// Launches without pause in another trust domain, and says how many calls failed when told to end.
int OtherDomainChild(const std::string& socket, const std::string& tag) {
  if (geteuid() == 0 && setuid(kOtherUid) != 0) return 1;
  auto client = Client::Connect({.socket = socket, .name = "other-domain"});
  if (!Good(client.status(), "connect")) return 1;
  static std::atomic<bool> stop{false};
  signal(SIGTERM, [](int) { stop = true; });
  long calls = 0, failures = 0;
  const Program program = Kernels(tag);
  if (!Good(Job(client->get(), program), "first job")) return 1;
  std::puts("ready");
  std::fflush(stdout);
  while (!stop) {
    ++calls;
    failures += Good(Job(client->get(), program), "job beside a fault") ? 0 : 1;
  }
  std::printf("%ld %ld\n", calls, failures);
  std::fflush(stdout);
  return 0;
}

struct Group {
  std::vector<pid_t> pids;
  std::vector<int> outs;
  Samples milliseconds;
  void Start(const std::vector<std::string>& words, int count) {
    for (int i = 0; i < count; ++i) {
      int out = -1;
      pids.push_back(Child(words, &out));
      outs.push_back(out);
    }
    for (int out : outs) milliseconds.Add(std::atof(ReadLine(out).c_str()));
  }
  ~Group() {
    for (pid_t pid : pids) kill(pid, SIGKILL);
    for (pid_t pid : pids) waitpid(pid, nullptr, 0);
    for (int out : outs) close(out);
  }
};

bool Launches(Client* client, const Kernel& kernel, CudaNative* native) {
  auto queue = client->GetQueue(kDevice);
  if (!Good(queue.status(), "queue")) return false;
  const LaunchConfig config = LaunchConfig::Grid({1}, {1});
  Samples native_rate, rate, native_sync, sync;
  constexpr int kCount = 20000;
  for (int round = 0; round < 12; ++round) {
    Stopwatch native_watch;
    if (!native->Launch(kCount) || !native->Synchronize()) return false;
    if (round > 1) native_rate.Add(native_watch.Microseconds() / kCount);
    Stopwatch watch;
    for (int i = 0; i < kCount; ++i) {
      if (!Good(kernel.Launch(*queue, config), "launch")) return false;
    }
    if (!Good(queue->Synchronize(), "synchronize")) return false;
    if (round > 1) rate.Add(watch.Microseconds() / kCount);
    for (int i = 0; i < 300; ++i) {
      Stopwatch one;
      native->Launch(1);
      native->Synchronize();
      if (round > 1) native_sync.Add(one.Microseconds());
      Stopwatch other;
      kernel.Launch(*queue, config).IgnoreError();
      queue->Synchronize().IgnoreError();
      if (round > 1) sync.Add(other.Microseconds());
    }
  }
  Row("launch, pipelined: native, kcache", Text("%.2f us, %.2f us; throughput ratio %.2f",
                                                native_rate.p50(), rate.p50(),
                                                native_rate.p50() / rate.p50()));
  Row("launch + synchronize p50", Text("%.1f us native, %.1f us kcache; ratio %.2f",
                                       native_sync.p50(), sync.p50(), sync.p50() / native_sync.p50()));
  return true;
}

bool Faults(Client* client, PrivateDaemon* daemon, const std::string& tag,
            const std::string& cubin_file) {
  int out = -1;
  const pid_t other = Child({"figures", "other-domain", daemon->socket(), tag}, &out);
  if (ReadLine(out) != "ready") return false;
  const Program program = Kernels(tag);
  constexpr int kFaults = 2;  // a third within a minute would put the context on hold
  Samples told_after, ratios;
  std::string recovered, fresh;
  int told = 0, retries = 0;
  std::atomic<int> lost{0};
  Registration registration = client->OnDeviceDestroy([&](const DeviceEvent& event) {
    if (event.cause == EventCause::kLost && event.phase == EventPhase::kAfter) ++lost;
    return absl::OkStatus();
  });
  for (int i = 0; i < kFaults; ++i) {
    double fresh_ms = 0;
    {
      // Under the same conditions: the other domain goes on beside it.
      Group alone;
      alone.Start({"figures", "native", cubin_file}, 1);
      fresh_ms = alone.milliseconds.p50();
    }
    auto kernel = client->Acquire({.program = program, .entry = "illegal", .device = kDevice});
    if (!Good(kernel.status(), "acquire")) return false;
    auto buffer = client->Allocate(kDevice, 64);
    if (!Good(buffer.status(), "allocate")) return false;
    auto queue = client->GetQueue(kDevice);
    if (!Good(queue.status(), "queue") || !Good(queue->Synchronize(), "synchronize")) return false;
    Stopwatch fault;
    absl::Status status = kernel->Launch(*queue, LaunchConfig::Grid({1}, {1}), *buffer);
    if (status.ok()) status = queue->Synchronize();
    told_after.Add(fault.Microseconds() / 1000);
    const Reason reason = FailureReason(status);
    if (reason == Reason::kDeviceLost || reason == Reason::kKernelFault) {
      ++told;
    } else {
      std::fprintf(stderr, "after an illegal address: %s\n", status.ToString().c_str());
    }
    Stopwatch watch;
    absl::Status again = Job(client, program);
    for (int retry = 0; !again.ok() && retry < 50; ++retry, ++retries) again = Job(client, program);
    if (!Good(again, "job after a fault")) return false;
    const double recovered_ms = watch.Microseconds() / 1000;
    ratios.Add(recovered_ms / fresh_ms);
    const char* comma = i == 0 ? "" : ", ";
    recovered += comma + Text("%.0f", recovered_ms);
    fresh += comma + Text("%.0f", fresh_ms);
  }
  kill(other, SIGTERM);
  long calls = 0, failures = -1;
  std::sscanf(ReadLine(out).c_str(), "%ld %ld", &calls, &failures);
  waitpid(other, nullptr, 0);
  close(out);
  Row("illegal address: holder told, listener",
      Text("%.0f of %.0f, %.0f LOST", told, kFaults, lost.load()));
  Row("other domain meanwhile", Text("%.0f calls, %.0f failed", calls, failures));
  Row("fault until its launcher is told", Text("%.0f ms at worst", told_after.Percentile(1)));
  Row("told to next good launch",
      recovered + Text(" ms (%.0f retries); a fresh context beside the same work ", retries) +
          fresh + Text(" ms; ratio of the worst %.2f", ratios.Percentile(1)));
  return told == kFaults && failures == 0;
}

int Figures() {
  const double before = UsedMiB();
  auto daemon = PrivateDaemon::Start({});
  if (!Good(daemon.status(), "daemon")) return 1;
  auto client = Client::Connect({.socket = (*daemon)->socket(), .name = "figures"});
  if (!Good(client.status(), "connect")) return 1;
  const std::string tag = "figures " + std::to_string(getpid());
  const Program program = Kernels(tag);

  Stopwatch cold;
  if (!Good(Job(client->get(), program), "first job")) return 1;
  Row("first compile, context and launch", Text("%.0f ms", cold.Microseconds() / 1000));
  Stopwatch compile_watch;
  auto artifact = (*client)->AcquireArtifact(Kernels(tag + " b"), kDevice);
  if (!Good(artifact.status(), "artifact")) return 1;
  Row("compile of a small program (NVRTC)", Text("%.0f ms", compile_watch.Microseconds() / 1000));

  if (!Good((*client)->Clear().status(), "clear")) return 1;
  Stopwatch load;
  auto loaded = (*client)->Acquire({.program = program, .entry = "nothing", .device = kDevice});
  if (!Good(loaded.status(), "load")) return 1;
  Row("artifact load (acquire after a clear)", Text("%.2f ms", load.Microseconds() / 1000));

  const std::span<const std::byte> bytes = artifact->Bytes();
  const std::string cubin(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const std::string cubin_file = (*daemon)->directory() + "/native.cubin";
  FILE* file = std::fopen(cubin_file.c_str(), "wb");
  std::fwrite(cubin.data(), 1, cubin.size(), file);
  std::fclose(file);

  double kcache_mib, native_mib, fresh_ms;
  {
    const double base = UsedMiB();
    Group own;
    own.Start({"figures", "native", cubin_file}, kProcesses);
    native_mib = UsedMiB() - base;
  }
  {
    Group alone;
    alone.Start({"figures", "native", cubin_file}, 1);
    fresh_ms = alone.milliseconds.p50();
  }
  {
    Group leased;
    leased.Start({"figures", "warm", (*daemon)->socket(), tag}, kProcesses);
    kcache_mib = UsedMiB() - before;
    Row("new process, warm, to first launch",
        Text("%.1f ms (16 at once, p50); native with a ready cubin, alone %.0f ms",
             leased.milliseconds.p50(), fresh_ms));
  }
  {
    Group one;
    one.Start({"figures", "warm", (*daemon)->socket(), tag}, 1);
    Row("new process, warm, alone", Text("%.1f ms; %.3f of native", one.milliseconds.p50(),
                                         one.milliseconds.p50() / fresh_ms));
  }
  Row("device memory, 16 processes", Text("%.0f MiB kcache, %.0f MiB a context each; ratio %.3f",
                                          kcache_mib, native_mib, kcache_mib / native_mib));

  auto native = CudaNative::Open();
  if (native == nullptr || !native->Load(cubin, "nothing")) return 1;
  if (!Launches(client->get(), *loaded, native.get())) return 1;
  const bool contained = Faults(client->get(), daemon->get(), tag, cubin_file);
  return contained ? 0 : 1;
}

}  // namespace
}  // namespace kcache::gpu

int main(int argc, char** argv) {
  using namespace kcache::gpu;  // NOLINT: this program's own
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "warm" && argc == 4) return WarmChild(argv[2], argv[3]);
  if (mode == "native" && argc == 3) return NativeChild(argv[2]);
  if (mode == "other-domain" && argc == 4) return OtherDomainChild(argv[2], argv[3]);
  return Figures();
}
