// How a fill is carried out: by the driver's memset of 1, 2 or 4 byte elements where the pattern
// and the address allow it, else by a seed that is copied in and then doubled on the device.
//
// Threads: pure functions, any thread.
#ifndef KCACHE_BACKENDS_CUDALIKE_FILL_PATTERN_H_
#define KCACHE_BACKENDS_CUDALIKE_FILL_PATTERN_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace kcache::backend::cudalike {

struct FillPlan {
  uint32_t width = 0;  // of a memset element; 0: no memset can do it, use `seed`
  uint32_t value = 0;  // of a memset element
  uint64_t count = 0;  // of memset elements
  std::string seed;    // a whole number of patterns, at most kSeedBytes, never longer than the fill
};

constexpr uint64_t kSeedBytes = 4096;

// `pattern` is 1, 2, 4, 8 or 16 bytes and `bytes` a positive multiple of it.
FillPlan PlanFill(uint64_t address, uint64_t bytes, std::string_view pattern);

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_FILL_PATTERN_H_
