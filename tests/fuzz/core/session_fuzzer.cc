// Sequences of session messages, and of what happens around them, against the core.

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/core/world.h"

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  // The harness expects things itself; what it finds wrong ends the run.
  GTEST_FLAG_SET(break_on_failure, true);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr int kMaxSteps = 200;
  FuzzedDataProvider bytes(data, size);
  kcache::core::World world(&bytes);
  for (int step = 0; step < kMaxSteps && bytes.remaining_bytes() > 0; ++step) {
    world.Step();
    world.Check();
  }
  world.Finish();
  return 0;
}
