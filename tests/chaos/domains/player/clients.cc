// Parts that are played with the public client library.

#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "contract/strings.h"
#include "kcache/client.h"
#include "tests/chaos/domains/player/player.h"

namespace kcache::domains {
namespace {

std::shared_ptr<Client> ConnectTo(const std::string& socket, const char* name, size_t memo) {
  auto client = Client::Connect({.socket = socket, .name = name, .memo_capacity = memo});
  if (!client.ok()) GiveUp(client.status());
  return *client;
}

Program AddOne(const std::string& tag) {
  auto program = Program::FromSource("opencl-c", "// " + tag + R"(
__kernel void add_one(__global const uint* in, __global uint* out) {
  out[get_global_id(0)] = in[get_global_id(0)] + 1;
}
)");
  if (!program.ok()) GiveUp(program.status());
  return *program;
}

// One client's work: what it holds is made again after a failure.
class Work {
 public:
  Work(std::shared_ptr<Client> client, DeviceId device, const std::string& tag)
      : client_(std::move(client)), device_(std::move(device)), program_(AddOne(tag)) {}

  absl::Status Once() {
    absl::Status status = TryOnce();
    if (!status.ok()) {
      in_ = Buffer();
      out_ = Buffer();
    }
    return status;
  }

 private:
  static constexpr uint32_t kCount = 256;

  absl::Status TryOnce() {
    auto kernel = client_->Acquire({.program = program_, .entry = "add_one", .device = device_});
    if (!kernel.ok()) return kernel.status();
    auto queue = client_->GetQueue(device_);
    if (!queue.ok()) return queue.status();
    if (in_.empty()) {
      auto in = client_->Allocate(device_, kCount * sizeof(uint32_t));
      if (!in.ok()) return in.status();
      auto out = client_->Allocate(device_, kCount * sizeof(uint32_t));
      if (!out.ok()) return out.status();
      in_ = *std::move(in);
      out_ = *std::move(out);
    }
    std::vector<uint32_t> values(kCount), results(kCount);
    std::iota(values.begin(), values.end(), ++round_);
    absl::Status status = in_.Write(*queue, values);
    if (status.ok()) status = kernel->Launch(*queue, LaunchConfig::Global({kCount}, {64}), in_, out_);
    if (status.ok()) status = out_.Read(*queue, &results);
    if (!status.ok()) return status;
    for (uint32_t i = 0; i < kCount; ++i) {
      if (results[i] != values[i] + 1) {
        return absl::DataLossError(
            absl::StrCat("element ", i, " is ", results[i], ", not ", values[i] + 1));
      }
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<Client> client_;
  const DeviceId device_;
  const Program program_;
  Buffer in_, out_;
  uint32_t round_ = 0;
};

}  // namespace

int PlayLaunch(const std::string& socket, const Words& words) {
  Work work(ConnectTo(socket, "launcher", 64), DeviceOf(words[0]), words[1]);
  if (absl::Status first = work.Once(); !first.ok()) GiveUp(first);
  const int pause_ms = std::atoi(words[2].c_str());
  Say("ready");
  while (!ToldToStop(pause_ms)) {
    const int64_t begin = Now();
    const absl::Status status = work.Once();
    if (status.ok()) {
      Say(absl::StrCat("ok ", begin, " ", Now()));
    } else {
      Say(absl::StrCat("failed ", begin, " ", AbslView(ReasonName(FailureReason(status))), " ",
                       OneLine(status)));
    }
  }
  return 0;
}

int PlayAcquire(const std::string& socket, const Words& words) {
  const auto client = ConnectTo(socket, "acquirer", 0);
  const KernelRequest request{
      .program = AddOne(words[1]), .entry = "add_one", .device = DeviceOf(words[0])};
  const auto kept = client->Acquire(request);  // so that the kernel stays loaded
  if (!kept.ok()) GiveUp(kept.status());
  Say("ready");
  while (!ToldToStop()) {
    const int64_t begin = Now();
    const auto kernel = client->Acquire(request);
    const int64_t end = Now();
    if (kernel.ok()) {
      Say(absl::StrCat("acquired ", end, " ", end - begin));
    } else {
      Say(absl::StrCat("failed ", begin, " ", AbslView(ReasonName(FailureReason(kernel.status()))),
                       " ", OneLine(kernel.status())));
    }
  }
  return 0;
}

int PlayBusy(const std::string& socket, const Words& words) {
  const auto client = ConnectTo(socket, "busy", 64);
  const DeviceId device = DeviceOf(words[0]);
  auto program = Program::FromSource("opencl-c", R"(
__kernel void endless(__global volatile uint* stop) {
  while (stop[0] == 0) {}
}
)");
  if (!program.ok()) GiveUp(program.status());
  auto kernel = client->Acquire({.program = *program, .entry = "endless", .device = device});
  if (!kernel.ok()) GiveUp(kernel.status());
  auto queue = client->GetQueue(device);
  if (!queue.ok()) GiveUp(queue.status());
  auto stop = client->Allocate(device, sizeof(uint32_t));
  if (!stop.ok()) GiveUp(stop.status());
  absl::Status status = stop->Write(*queue, std::vector<uint32_t>{0});
  if (status.ok()) status = queue->Synchronize();
  if (status.ok()) status = kernel->Launch(*queue, LaunchConfig::Global({1}, {1}), *stop);
  if (!status.ok()) GiveUp(status);
  Say("ready");
  while (Hear()) {
  }
  // The kernel never ends by itself, and neither would a client that waits for it.
  std::_Exit(0);
}

// ---- native code --------------------------------------------------------------------------------

namespace {

// On a CPU device a kernel is native code of its host. This one makes the system calls that it is
// given: six numbers each, the call's and its arguments, then which arguments (a bit each) are places
// in `text`.
constexpr char kSystemCalls[] = R"(
static long system_call(long number, long a, long b, long c, long d) {
  long result;
  __asm__ volatile("mov %5, %%r10\n\txor %%r8d, %%r8d\n\txor %%r9d, %%r9d\n\tsyscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(d)
                   : "rcx", "r8", "r9", "r10", "r11", "memory");
  return result;
}
__kernel void system_calls(__global const long* calls, __global const char* text,
                           __global long* results, uint count) {
  for (uint i = 0; i < count; ++i) {
    __global const long* call = calls + 6 * i;
    long argument[4];
    for (int k = 0; k < 4; ++k) {
      argument[k] = (call[5] >> k) & 1 ? (long)(text + call[1 + k]) : call[1 + k];
    }
    results[i] = system_call(call[0], argument[0], argument[1], argument[2], argument[3]);
  }
}
)";

constexpr int kCallWords = 6;

}  // namespace

// Standard input: "call NAME NUMBER ARGUMENT ARGUMENT ARGUMENT ARGUMENT" lines, an argument being a
// number or "=text"; then "go". Answers "result NAME VALUE" for each, and then "done".
int PlayNative(const std::string& socket, const Words& words) {
  const auto client = ConnectTo(socket, "native", 64);
  const DeviceId device = DeviceOf(words[0]);
  auto program = Program::FromSource("opencl-c", kSystemCalls);
  if (!program.ok()) GiveUp(program.status());
  auto kernel = client->Acquire({.program = *program, .entry = "system_calls", .device = device});
  if (!kernel.ok()) GiveUp(kernel.status());
  auto queue = client->GetQueue(device);
  if (!queue.ok()) GiveUp(queue.status());
  Say("ready");

  std::vector<std::string> names;
  std::vector<int64_t> calls;
  std::string text(1, '\0');
  while (auto line = Hear()) {
    std::istringstream in(*line);
    std::string word, name;
    in >> word;
    if (word == "go") break;
    std::array<int64_t, kCallWords> call{};
    in >> name >> call[0];
    for (size_t i = 0; i < 4 && in >> word; ++i) {
      if (word[0] == '=') {
        call[1 + i] = static_cast<int64_t>(text.size());
        call[5] |= int64_t{1} << i;
        text.append(word.substr(1)).push_back('\0');
      } else {
        call[1 + i] = std::stoll(word);
      }
    }
    names.push_back(name);
    calls.insert(calls.end(), call.begin(), call.end());
  }
  if (names.empty()) return 0;
  const uint32_t count = static_cast<uint32_t>(names.size());
  std::vector<int64_t> results(count, 1);
  const std::vector<char> bytes(text.begin(), text.end());
  auto in = client->Allocate(device, calls.size() * sizeof(int64_t));
  auto strings = client->Allocate(device, bytes.size());
  auto out = client->Allocate(device, count * sizeof(int64_t));
  for (const auto* buffer : {&in, &strings, &out}) {
    if (!buffer->ok()) GiveUp(buffer->status());
  }
  absl::Status status = in->Write(*queue, calls);
  if (status.ok()) status = strings->Write(*queue, bytes);
  if (status.ok()) status = out->Write(*queue, results);
  if (status.ok()) {
    status = kernel->Launch(*queue, LaunchConfig::Global({1}, {1}), *in, *strings, *out, count);
  }
  if (status.ok()) status = out->Read(*queue, &results);
  if (!status.ok()) GiveUp(status);
  for (uint32_t i = 0; i < count; ++i) Say(absl::StrCat("result ", names[i], " ", results[i]));
  Say("done");
  while (Hear()) {
  }
  return 0;
}

}  // namespace kcache::domains
