// Breaks this process's connections from the outside, as a network would: the library only sees its sockets
// end.
//
// Threads: any.

#ifndef KCACHE_TESTS_CHAOS_SOCKET_CUT_H_
#define KCACHE_TESTS_CHAOS_SOCKET_CUT_H_

#include <cstdint>

namespace kcache::chaos {

// Shuts connected unix stream sockets down: all (`which` 0), or every second one (1: the first, 2: the
// second). Returns how many.
uint64_t CutSockets(uint32_t which);

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_SOCKET_CUT_H_
