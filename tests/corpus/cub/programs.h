// CUB's and libcu++'s block and warp algorithms, instantiated over types and sizes: real programs
// that open hundreds of toolkit headers each. Every program is one block, `run(const T* in, T*
// out)`, and comes with its input and the result it must have.
//
// Threads: pure functions, any thread.
#ifndef KCACHE_TESTS_CORPUS_CUB_PROGRAMS_H_
#define KCACHE_TESTS_CORPUS_CUB_PROGRAMS_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kcache::corpus {

struct CubProgram {
  std::string name;    // "BlockReduce<float, 128, WARP_REDUCTIONS> x 4"
  std::string source;  // CUDA C++, entry point "run"
  uint32_t threads = 0;
  std::string input;     // the bytes of `in`
  std::string expected;  // the bytes that `out` begins with
};

std::vector<CubProgram> CubPrograms();

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_CUB_PROGRAMS_H_
