// Where a program finds its own libraries: its DT_RUNPATH, or DT_RPATH. A program that travels with its
// libraries needs those directories in its sandbox, too.
//
// Threads: any; reads a file.

#ifndef KCACHE_DAEMON_WORKERS_LIBRARY_PATH_H_
#define KCACHE_DAEMON_WORKERS_LIBRARY_PATH_H_

#include <string>
#include <vector>

namespace kcache::workers {

// Absolute directories, $ORIGIN replaced by the program's. Empty for a program that names none, and
// for anything that is no 64-bit ELF file of this machine's byte order.
std::vector<std::string> LibraryDirectories(const std::string& program);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_LIBRARY_PATH_H_
