// Processes as /proc shows them, each with its time of birth, so that a number that is given out again
// is not taken for the one that had it before.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_PROCESS_TREE_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_PROCESS_TREE_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace kcache::domains {

struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';
  uint64_t born = 0;  // clock ticks since boot
  std::string name;   // at most 15 characters, as the kernel keeps it
};

// `root` itself and everything below it, parents first; nothing when it has exited.
std::vector<ProcessEntry> Tree(pid_t root);
// Those of a tree that are backend programs, as opposed to the launcher and its init.
std::vector<ProcessEntry> Backends(pid_t root);
// Whether this very process still runs; a zombie does not.
bool Runs(const ProcessEntry& process);

uint64_t ResidentBytes(pid_t pid);

// The private directory that kcached gave to a process: what its launcher's command line says.
// Empty: it says nothing.
std::string DirectoryOf(pid_t launcher);

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_PROCESS_TREE_H_
