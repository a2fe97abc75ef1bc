// What a run may leave behind on the machine, compared with what was there before it.
//
// Threads: one.

#ifndef KCACHE_TESTS_CHAOS_LEFTOVERS_H_
#define KCACHE_TESTS_CHAOS_LEFTOVERS_H_

#include <set>
#include <string>

#include "contract/history.h"

namespace kcache::chaos {

class Leftovers {
 public:
  // Looks at the machine.
  Leftovers();
  // After the stop: records what is there now and was not then, and what the daemon left in its own
  // runtime directory.
  void Record(const std::string& runtime_directory, const History* history) const;

 private:
  std::set<std::string> memory_files_;
};

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_LEFTOVERS_H_
