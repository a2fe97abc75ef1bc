// kcache-bench NAME: see run.sh.

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/bench/bare_fanout.h"
#include "tests/bench/bench.h"
#include "tests/bench/echo.h"
#include "tests/bench/holders.h"

namespace kcache::bench {

std::optional<DeviceId> PickDevice(Client* client, std::string_view family) {
  const char* wanted = std::getenv("KCACHE_BENCH_FAMILY");
  if (family.empty() && wanted != nullptr) family = wanted;
  auto list = client->ListDevices();
  if (!list.ok()) {
    Failed("listing devices", list.status());
    return std::nullopt;
  }
  for (const UnavailableFamily& away : list->unavailable) {
    std::fprintf(stderr, "%s: %s\n", away.family.c_str(), away.reason.c_str());
  }
  for (const DeviceInfo& device : list->devices) {
    // The fake is there in a build tree; it is nobody's device.
    if (family.empty() ? device.id.framework != "Fake" : device.id.framework == family) {
      return device.id;
    }
  }
  return std::nullopt;
}

Program EmptyKernels(const DeviceId& device, int count) {
  const bool cuda = device.framework == "CUDA" || device.framework == "HIP";
  std::string source;
  for (int i = 0; i < count; ++i) {
    const std::string name = "k" + std::to_string(i);
    if (cuda) {
      source += "extern \"C\" __global__ void " + name + "() {}\n";
    } else {
      source += "__kernel void " + name + "() {}\n";
    }
  }
  const char* language =
      device.framework == "CUDA" ? "cuda-c++" : device.framework == "HIP" ? "hip-c++" : "opencl-c";
  return Program::FromSource(language, source).value();
}

int Failed(std::string_view what, const absl::Status& status) {
  std::fprintf(stderr, "kcache-bench: %s: %s\n", std::string(what).c_str(),
               status.ToString().c_str());
  return 1;
}

}  // namespace kcache::bench

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "";
  const std::string program = "/proc/self/exe";
  // A child that has ended is an error to report, not the end of this process.
  signal(SIGPIPE, SIG_IGN);
  // Thousands of connections take as many descriptors.
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
  }
  if (name == "echo-server" && argc == 4) {
    return kcache::bench::RunEchoServer(argv[2], std::strtoul(argv[3], nullptr, 10));
  }
  if (name == "fanout-server" && argc == 3) return kcache::bench::RunBareFanoutServer(argv[2]);
  if (name == "holder" && argc == 6) {
    return kcache::bench::RunHolder(argv[2], argv[3], std::strtoul(argv[4], nullptr, 10),
                                    std::strtoul(argv[5], nullptr, 10));
  }
  if (name == "acquire") return kcache::bench::Acquire(program);
  if (name == "launch") return kcache::bench::Launch(program);
  if (name == "fanout") return kcache::bench::Fanout(program);
  if (name == "sessions") return kcache::bench::Sessions(program);
  std::fprintf(stderr, "usage: %s acquire|fanout|launch|sessions\n", argv[0]);
  return 2;
}
