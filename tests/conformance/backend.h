// What the conformance suite has to know of a backend: its kernels' sources and what it excludes.
//
// A backend registers one Backend. The suite's tests are the same for all; a test that a backend
// cannot pass by nature is excluded by name with the reason, and the summary prints it. There is no
// other way to skip. Where a guarantee has a way out that is part of it (a process that the kernel does
// not end in time is STUCK, and says so), a backend whose driver takes that way is allowed it by name,
// with the reason; the rest of the test holds all the same, and the summary prints that it was used.
//
// Kernels take buffers first, then scalars, and compute what Role says, so that the tests need not
// know whose they are. Sizes: `uint` is 32 bits.
//
// Threads: one. Ownership: plain values.

#ifndef KCACHE_TESTS_CONFORMANCE_BACKEND_H_
#define KCACHE_TESTS_CONFORMANCE_BACKEND_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kcache/client.h"

namespace kcache::conformance {

enum class Role {
  kVectorAdd,      // (a, b, sum, uint n): float sum[i] = a[i] + b[i], local size 64
  kSaxpy,          // (x, y, uint n, float a): y[i] += a * x[i], local size 64
  kIndex3d,        // (out): out[(z * ny + y) * nx + x] = 1000000 z + 1000 y + x, any local size
  kReduce,         // (in, out): uint out[group], 0 before, = sum of the group's 64 inputs
  kReduceDynamic,  // the same with local memory sized at the launch
  kBytes,          // (out, uint offset, uint n): byte out[offset + i] = 7 i + 3, local size 64
  kTwoEntries,     // entries first, second: (out): uint out[i] = 2 i / 3 i, local size 64
  kHeader,         // (out): uint out[i] = HEADER_SCALE * i + OFFSET: header scale.h, define OFFSET
  kFlag,           // (out): uint out[0] = 1 with `flag_flags`, 0 without
  kScalars,        // (out, uint a, float b, double or uint c): see launch_test.cc
  kSpecialized,    // (out): uint out[i] = FACTOR (id 3, default 2) * i
  kTemplate,       // a C++ template: (out): uint out[i] = N * i for N = 5
  kIncrement,      // (data): uint data[i] += 1, local size 64
  kSetFlag,        // (flag): atomically sets uint flag[0] = 1
  kAwaitFlag,     // (flag, out, uint most): spins at most `most` times for flag[0]; uint out[0] = 1
                  // if it saw the flag, else 2
  kEndless,       // (flag): until uint flag[0] becomes non-zero
  kFault,         // (out, ulong address): writes to an address that is not mapped
  kCompileError,  // uses the undeclared name `undeclared_name`
};

std::string_view RoleName(Role role);

struct KernelSource {
  std::string language;
  std::string source;
  std::string entry;
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::vector<std::pair<std::string, std::optional<std::string>>> defines = {};
  std::vector<std::string> flags = {};
  std::vector<std::string> name_expressions = {};
};

// How a part of an exclusion's name matches: "Suite.Case", "Suite.*".
struct Exclusion {
  std::string test;
  std::string reason;
};

struct Backend {
  std::string name;       // as on the command line
  std::string framework;  // what devices are called: a family, or family/variant
  std::map<Role, KernelSource> kernels;
  std::vector<std::string> flag_flags;  // for Role::kFlag
  // Whether a part of a buffer at an offset below the device's alignment is refused, by the API's
  // nature; otherwise it gives the right result.
  bool refuses_unaligned_parts = false;
  Dim3 endless_grid = 1;                // what Role::kEndless is launched with
  // What scale.h, the header of Role::kHeader, says when its scale is `scale`.
  std::function<std::string(uint32_t scale)> header = [](uint32_t scale) {
    return "#define HEADER_SCALE " + std::to_string(scale) + "u\n";
  };
  std::vector<Exclusion> exclusions;
  std::vector<Exclusion> allowances;

  // What can be compiled for without a device, and the artifact's format. Empty: nothing.
  std::string compile_architecture;
  std::string artifact_format;

  // For the daemon; every variable is shown to backend programs.
  std::map<std::string, std::string> environment;

  // The variable that says where the API's loader finds its drivers, and such a place. Empty: the API
  // has none, and a driver's return is excluded with the reason.
  std::string driver_variable;
  std::string driver_place;

  // What depends on the devices found: there is at least one. None: nothing does.
  std::function<void(const std::vector<DeviceInfo>&, Backend*)> adapt;

  std::string family() const { return framework.substr(0, framework.find('/')); }
};

// All that the suite knows. Each is in a file of its own.
Backend FakeBackend();
Backend OpenClBackend();
Backend VulkanBackend();
Backend CudaBackend();
Backend CudaPtxBackend();
Backend HipBackend();
std::vector<Backend> AllBackends();

}  // namespace kcache::conformance

#endif  // KCACHE_TESTS_CONFORMANCE_BACKEND_H_
