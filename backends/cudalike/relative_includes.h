// Headers by content, for compilers that look a header up by exactly the name that an #include
// spells.
//
// In a directory on disk "kernels/a.h" may say #include "b.h" and mean "kernels/b.h". NVRTC, given
// both by content, finds no "b.h". So each quoted include that names a header of the set relative
// to the header it stands in is rewritten to that header's full name; nothing else of the text
// changes.
//
// Threads: pure functions, any thread.
#ifndef KCACHE_BACKENDS_CUDALIKE_RELATIVE_INCLUDES_H_
#define KCACHE_BACKENDS_CUDALIKE_RELATIVE_INCLUDES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "kcache/v1/backend.pb.h"

namespace kcache::backend::cudalike {

std::vector<v1::HeaderFile> ResolveRelativeIncludes(const std::vector<v1::HeaderFile>& headers);

// COMPILE_FAILED for an #include, in the source or a header, of a path that is absolute and below
// none of `toolkit_directories`, or that climbs out with "..": it would read the compiler's disk.
// Names that macros make up are not seen here; what those can reach is the sandbox's to limit.
absl::Status CheckIncludes(std::string_view source, const std::vector<v1::HeaderFile>& headers,
                           const std::vector<std::string>& toolkit_directories);

// `path` as seen from `directory`, without "." and ".."; empty when it leaves the root.
std::string JoinNormalized(std::string_view directory, std::string_view path);

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_RELATIVE_INCLUDES_H_
