// The benchmarks. Each prints a table for people and, last, its summary line; the answer is the
// process's exit status.

#ifndef KCACHE_TESTS_BENCH_BENCH_H_
#define KCACHE_TESTS_BENCH_BENCH_H_

#include <optional>
#include <string>
#include <string_view>

#include "kcache/client.h"

namespace kcache::bench {

// `program` is this program, to start processes of its own.
int Acquire(const std::string& program);
int Launch(const std::string& program);
int Fanout(const std::string& program);
int Sessions(const std::string& program);

// The first device of the family, or of any: $KCACHE_BENCH_FAMILY.
std::optional<DeviceId> PickDevice(Client* client, std::string_view family = "");
// `count` kernels that do nothing, "k0" …, in the language of the device's family.
Program EmptyKernels(const DeviceId& device, int count);
// Prints why and returns the exit status of a benchmark that could not run.
int Failed(std::string_view what, const absl::Status& status);

}  // namespace kcache::bench

#endif  // KCACHE_TESTS_BENCH_BENCH_H_
