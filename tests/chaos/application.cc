#include "tests/chaos/application.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace kcache::chaos {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kConnectTimeout{3000};
constexpr milliseconds kAcquireTimeout{30000};
constexpr milliseconds kRequestTimeout{20000};
constexpr uint32_t kManyItems = 1u << 20;
constexpr int kStubbornMs = 900;  // longer than any grace of a run

std::string Name(const absl::Status& status) {
  return status.ok() ? "OK" : std::string(ReasonName(FailureReason(status)));
}

std::string_view CauseName(EventCause cause) {
  switch (cause) {
    case EventCause::kDestroyed:
      return "destroyed";
    case EventCause::kCleared:
      return "cleared";
    case EventCause::kReset:
      return "reset";
    case EventCause::kLost:
      return "lost";
    case EventCause::kMissed:
      return "missed";
    case EventCause::kSessionLost:
      return "session-lost";
  }
  return "?";
}

}  // namespace

Application::Application(ApplicationOptions options, const History* history)
    : options_(std::move(options)), history_(history), random_(options_.seed) {}

int Application::NextPause() { return static_cast<int>(NextBelow(60)); }

uint32_t Application::NextBelow(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

const DeviceId& Application::Device() {
  return options_.devices[NextBelow(static_cast<uint32_t>(options_.devices.size()))];
}

// ---- the session --------------------------------------------------------------------------------

bool Application::Connected() {
  if (client_ == nullptr) Connect();
  if (client_ == nullptr) return false;
  NoteSession();
  return true;
}

void Application::Connect() {
  auto client = Client::Connect({.socket = options_.socket,
                                 .name = "chaos",
                                 .connect_timeout = kConnectTimeout,
                                 .acquire_timeout = kAcquireTimeout,
                                 .request_timeout = kRequestTimeout,
                                 .memo_capacity = 8,
                                 .slow_listener = milliseconds(100)});
  if (!client.ok()) {
    history_->Record("connect-failed", {{"reason", Name(client.status())}});
    return;
  }
  client_ = *std::move(client);
  NoteSession();
  Listen();
}

void Application::Disconnect() {
  history_->Record("closing", {{"session", session_}});
  on_destroy_.Unregister();
  on_clear_.Unregister();
  held_.clear();
  client_->Close();
  client_ = nullptr;
  history_->Record("closed", {{"session", session_}});
}

void Application::NoteSession() {
  const SessionInfo info = client_->session();
  if (info.session_id == session_) return;
  session_ = info.session_id;
  history_->Record("session", {{"session", session_}, {"instance", info.instance}});
}

void Application::Listen() {
  on_destroy_ = client_->OnDeviceDestroy([this](const DeviceEvent& event) {
    Hear("device", event, event.family, event.index);
    return absl::OkStatus();
  });
  on_clear_ = client_->OnClearAll([this](const ClearEvent& event) {
    Hear("clear", event, event.family, event.index);
    return absl::OkStatus();
  });
  // Behind the subscription on the stream: from here on nothing may be missed.
  if (client_->ListDevices().ok()) history_->Record("listening", {{"session", session_}});
}

void Application::Hear(std::string_view what, const InvalidationEvent& event,
                       std::string_view family, std::optional<uint32_t> index) {
  ++listening_;
  history_->Record("event", {{"what", what},
                             {"phase", event.phase == EventPhase::kBefore ? "before" : "after"},
                             {"cause", CauseName(event.cause)},
                             {"operation", event.operation.ToString()},
                             {"revision", event.revision},
                             {"family", family},
                             {"index", index ? std::to_string(*index) : std::string("all")},
                             {"failure", Name(event.failure)}});
  if (options_.stubborn && !hurry_.load() && event.phase == EventPhase::kBefore && event.cause != EventCause::kLost &&
      ++stubbornness_ % 2 == 0) {
    poll(nullptr, 0, kStubbornMs);
  }
  history_->Record("heard", {{"phase", event.phase == EventPhase::kBefore ? "before" : "after"},
                             {"operation", event.operation.ToString()}});
  ++heard_;
  --listening_;
}

// Everything that the daemon sent before `barrier-began` has reached the listeners at `barrier`.
void Application::Barrier() {
  history_->Record("barrier-began", {{"session", session_}});
  if (!client_->ListDevices().ok()) return;
  // The library's listener thread may still be on its way through what the stream has brought.
  hurry_ = true;
  int quiet = 0;
  for (int i = 0; i < 400 && quiet < 10; ++i) {
    const uint64_t before = heard_.load();
    poll(nullptr, 0, 25);
    quiet = listening_.load() == 0 && heard_.load() == before ? quiet + 1 : 0;
  }
  hurry_ = false;
  NoteSession();
  if (quiet == 10) history_->Record("barrier", {{"session", session_}});
}

void Application::Finish() {
  if (!Connected()) return;
  Barrier();
  Disconnect();
}

// ---- actions ------------------------------------------------------------------------------------

void Application::Act() {
  // Drawn first, whatever comes of it: a seed stands for one sequence of actions.
  const uint32_t draw = NextBelow(1000);
  const DeviceId device = Device();
  if (!Connected()) return;
  if (draw < 880) {
    Round(device);
  } else if (draw < 930) {
    Batch(device);
  } else if (draw < 960) {
    client_->ForgetKernels();
    history_->Record("forgot", {});
  } else if (draw < 972) {
    auto cleared = client_->Clear({.family = draw % 2 == 0 ? device.framework : ""});
    history_->Record("own-clear", {{"outcome", Name(cleared.status())}});
  } else if (draw < 980) {
    auto destroyed = client_->DestroyDevice(device);
    history_->Record("own-destroy",
                     {{"device", device.ToString()}, {"outcome", Name(destroyed.status())}});
  } else if (draw < 990) {
    Barrier();
  } else {
    Barrier();
    Disconnect();
  }
}

void Application::Round(const DeviceId& device) {
  const uint32_t draw = NextBelow(1000);
  Temper temper = Temper::kGood;
  uint32_t number = NextBelow(ProgramsOf(device.framework));
  const bool fake = device.framework == "Fake";
  if (draw < (fake ? 30 : 5)) {
    number = 1000 + NextBelow(100000);  // nobody else's
  } else if (draw < 33 && fake) {
    temper = Temper::kFaults;
  } else if (draw < 36) {
    temper = Temper::kBadCompile;
  } else if (draw < 38 && fake) {
    temper = Temper::kKillsCompiler;
  }
  const uint64_t round = ++rounds_;
  const uint64_t forked = random_();  // what the round draws does not depend on how it goes
  std::mt19937_64 rest(forked);
  std::swap(rest, random_);
  history_->Record("round", {{"round", round},
                             {"device", device.ToString()},
                             {"program", number},
                             {"temper", static_cast<uint64_t>(temper)}});
  auto program = MakeProgram(device.framework, number, temper);
  const KernelRequest request{.program = *program, .entry = kEntry, .device = device};
  auto kernel = temper == Temper::kGood ? AcquireOrHeld(request, &number) : client_->Acquire(request);
  if (kernel.ok()) {
    RunLaunches(round, *kernel, device, number, temper);
  } else {
    history_->Record("round-ended", {{"round", round},
                                     {"device", device.ToString()},
                                     {"acquired", Name(kernel.status())},
                                     {"why", std::string(kernel.status().message())}});
  }
  std::swap(rest, random_);
}

absl::StatusOr<Kernel> Application::AcquireOrHeld(const KernelRequest& request, uint32_t* number) {
  auto held = held_.find(request.device);
  if (options_.stubborn && held != held_.end()) {
    *number = held->second.second;
    return held->second.first;
  }
  auto kernel = client_->Acquire(request);
  if (options_.stubborn && kernel.ok()) held_[request.device] = {*kernel, *number};
  return kernel;
}

void Application::RunLaunches(uint64_t round, const Kernel& kernel, const DeviceId& device,
                              uint32_t number, Temper temper) {
  const uint32_t launches = 1 + NextBelow(12), salt = NextBelow(1000);
  // Now and then kernels that are under way for long, when something happens: most of their work-items do
  // nothing.
  const uint32_t items = NextBelow(20) == 0 ? kManyItems : kElements;
  std::vector<uint32_t> values(kElements), results(kElements);
  for (uint32_t i = 0; i < kElements; ++i) values[i] = NextBelow(1u << 16);
  uint32_t accepted = 0, wrong = 0;
  absl::Status refused, synchronized, read;
  auto buffer = client_->Allocate(device, kElements * sizeof(uint32_t));
  auto queue = client_->GetQueue(device, NextBelow(2));
  absl::Status prepared = buffer.ok() ? queue.status() : buffer.status();
  if (prepared.ok()) prepared = buffer->Write(*queue, values);
  if (prepared.ok()) {
    for (uint32_t i = 0; i < launches; ++i) {
      refused = kernel.Launch(*queue, LaunchConfig::Global({items}, {64}), *buffer, kElements,
                              salt);
      if (!refused.ok()) break;
      ++accepted;
    }
    synchronized = queue->Synchronize();
    read = buffer->Read(*queue, &results);
    if (synchronized.ok() && read.ok() && temper == Temper::kGood) {
      for (uint32_t i = 0; i < kElements; ++i) {
        wrong += results[i] != Expected(values[i], accepted, salt, number);
      }
    }
  }
  if (!prepared.ok() || !refused.ok() || !synchronized.ok()) held_.erase(device);
  history_->Record("round-ended", {{"round", round},
                                   {"device", device.ToString()},
                                   {"acquired", "OK"},
                                   {"prepared", Name(prepared)},
                                   {"accepted", accepted},
                                   {"refused", Name(refused)},
                                   {"synchronized", Name(synchronized)},
                                   {"read", Name(read)},
                                   {"wrong", wrong}});
}

void Application::Batch(const DeviceId& device) {
  std::vector<KernelRequest> requests;
  for (uint32_t i = 0; i < 4; ++i) {
    auto program = MakeProgram(device.framework, NextBelow(ProgramsOf(device.framework)));
    requests.push_back({.program = *program, .entry = kEntry, .device = device});
  }
  uint64_t granted = 0;
  for (const auto& kernel : client_->AcquireBatch(requests)) granted += kernel.ok() ? 1 : 0;
  history_->Record("batch", {{"device", device.ToString()}, {"granted", granted}});
}

}  // namespace kcache::chaos
