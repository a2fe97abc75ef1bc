// The programs that chaos clients run. Each does x[i] = x[i] * 3 + salt + NUMBER, in place: the result tells
// how many launches ran, and of which program.
//
// Threads: pure functions.

#ifndef KCACHE_TESTS_CHAOS_KERNELS_H_
#define KCACHE_TESTS_CHAOS_KERNELS_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "kcache/program.h"

namespace kcache::chaos {

// How many programs all clients share: real compilers take long.
constexpr uint32_t kFakePrograms = 12;
constexpr uint32_t kOpenClPrograms = 3;

constexpr char kEntry[] = "advance";
constexpr uint32_t kElements = 128;

enum class Temper {
  kGood,
  kFaults,        // its launch is a device fault: the context is lost (the fake only)
  kBadCompile,    // does not compile
  kKillsCompiler  // its compiler dies (the fake only)
};

uint32_t ProgramsOf(std::string_view family);

absl::StatusOr<Program> MakeProgram(std::string_view family, uint32_t number,
                                    Temper temper = Temper::kGood);

// What an element is after `launches` of program `number` with `salt`.
uint32_t Expected(uint32_t value, uint32_t launches, uint32_t salt, uint32_t number);

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_KERNELS_H_
