// Which build of a library is loaded: its ELF build id, or, where the linker left none, its size
// and a hash of its bytes. Part of the compiler fingerprint, so that an upgraded driver misses.
//
// Threads: any.

#ifndef KCACHE_BACKENDS_OPENCL_LIBRARY_IDENTITY_H_
#define KCACHE_BACKENDS_OPENCL_LIBRARY_IDENTITY_H_

#include <string>
#include <vector>

namespace kcache::backend::opencl {

// The file that the code or data at `address` was loaded from; empty when it is none.
std::string LibraryFileOf(const void* address);

// "libpocl.so.2.9.0 build-id 0123…" of a loaded file, without its directory.
std::string LibraryIdentity(const std::string& path);

// The files of loaded libraries whose base name contains one of `words`, sorted.
std::vector<std::string> LoadedLibrariesNamed(const std::vector<std::string>& words);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_LIBRARY_IDENTITY_H_
