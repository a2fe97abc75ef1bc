// One client process of a chaos run: an application that acquires kernels, launches, checks results, and
// now and then does what applications do to each other: clears, destroys, forgets, reconnects.
//
//   kcache-chaos-worker --socket=PATH --history=FILE --seed=N --devices=Fake:0,Fake:1 [--profile=stubborn]
//                       [--uid=N]
//
// What it does follows from its seed alone. Its standard input takes commands, one character each: `c` cuts
// its sockets, `f` finishes: after everything that it has been told has reached its listeners.
// Profile `stubborn`: a listener that often does not return before the grace is over, while the
// application goes on launching.

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "contract/history.h"
#include "tests/chaos/application.h"
#include "tests/chaos/socket_cut.h"

namespace kcache::chaos {
namespace {

bool Option(std::string_view argument, std::string_view name, std::string* value) {
  if (!argument.starts_with("--") || !argument.substr(2).starts_with(name)) return false;
  argument.remove_prefix(2 + name.size());
  if (argument.empty() || argument[0] != '=') return false;
  *value = std::string(argument.substr(1));
  return true;
}

std::vector<DeviceId> ParseDevices(const std::string& text) {
  std::vector<DeviceId> devices;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string one = text.substr(start, end - start);
    const size_t colon = one.find(':');
    devices.push_back({one.substr(0, colon),
                       static_cast<uint32_t>(std::strtoul(one.c_str() + colon + 1, nullptr, 10))});
    start = end + 1;
  }
  return devices;
}

enum class Command { kNone, kCut, kFinish };

// Waits for a command, at most `milliseconds`.
Command Await(int milliseconds) {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  if (poll(&input, 1, milliseconds) <= 0) return Command::kNone;
  char byte = 0;
  if (read(STDIN_FILENO, &byte, 1) <= 0) return Command::kFinish;
  return byte == 'c' ? Command::kCut : byte == 'f' ? Command::kFinish : Command::kNone;
}

int Main(int argc, char** argv) {
  std::string socket, path, seed, devices, profile, uid;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool known = Option(argument, "socket", &socket) || Option(argument, "history", &path) ||
                       Option(argument, "seed", &seed) || Option(argument, "devices", &devices) ||
                       Option(argument, "profile", &profile) || Option(argument, "uid", &uid);
    if (!known) return 2;
  }
  auto history = History::Open(path);
  if (!history.ok()) {
    std::fprintf(stderr, "%s\n", history.status().ToString().c_str());
    return 1;
  }
  if (!uid.empty()) {
    const auto number = static_cast<uid_t>(std::strtoul(uid.c_str(), nullptr, 10));
    if (setgroups(0, nullptr) != 0 || setgid(number) != 0 || setuid(number) != 0) return 1;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  (*history)->Record("client", {{"pid", static_cast<uint64_t>(getpid())},
                                {"uid", static_cast<uint64_t>(getuid())},
                                {"profile", profile.empty() ? std::string("plain") : profile}});
  Application application(
      {.socket = socket,
       .devices = ParseDevices(devices),
       .seed = std::strtoull(seed.c_str(), nullptr, 10),
       .stubborn = profile == "stubborn"},
      history->get());
  while (true) {
    switch (Await(application.NextPause())) {
      case Command::kFinish:
        application.Finish();
        (*history)->Record("client-done", {});
        return 0;
      case Command::kCut:
        (*history)->Record("cut", {{"sockets", CutSockets(application.NextBelow(3))}});
        break;
      case Command::kNone:
        application.Act();
    }
  }
}

}  // namespace
}  // namespace kcache::chaos

int main(int argc, char** argv) { return kcache::chaos::Main(argc, argv); }
