// How often other clients failed, and the first of their failures.
//
// Threads: one at a time; who counts from several holds a lock of his own.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_FAILURES_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_FAILURES_H_

#include <cstdint>
#include <string>

namespace kcache::domains {

struct Failures {
  uint64_t count = 0;
  std::string first = {};  // as the player told it

  void Add(const std::string& line) {
    if (count++ == 0) first = line;
  }
};

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_FAILURES_H_
