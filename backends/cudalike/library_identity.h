// What a shared library is, by content: its build id, or the digest of its bytes when it has none.
// Two files with one identity compile the same programs to the same binaries.
//
// Threads: pure function, any thread.
#ifndef KCACHE_BACKENDS_CUDALIKE_LIBRARY_IDENTITY_H_
#define KCACHE_BACKENDS_CUDALIKE_LIBRARY_IDENTITY_H_

#include <string>

namespace kcache::backend::cudalike {

// Empty when the file cannot be read.
std::string LibraryIdentity(const std::string& path);

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_LIBRARY_IDENTITY_H_
