// What a process and all its descendants use, from /proc: how a compile is looked after where the kernel
// does not bound it.
//
// Threads: any.

#ifndef KCACHE_DAEMON_WORKERS_TREE_USE_H_
#define KCACHE_DAEMON_WORKERS_TREE_USE_H_

#include <sys/types.h>

#include <cstdint>

namespace kcache::workers {

// A tree that grows while it is read is counted up to this many.
inline constexpr uint32_t kMostOfTree = 4096;

// Nothing when the process has exited.
struct TreeUse {
  uint64_t resident_bytes = 0;  // what processes share, such as what a fork left, counts for each
  uint32_t processes = 0;
};
// Of no more than this many processes of the tree.
TreeUse UseOfTree(pid_t pid, uint32_t most_processes = kMostOfTree);
// The same memory, with what processes share counted once. Takes the kernel longer to find out.
uint64_t ProportionalBytesOfTree(pid_t pid);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_TREE_USE_H_
