// What a probe's report depends on: the libraries that are loaded in this process, and the places where
// the loaders of drivers look. kcached watches them, and probes again when one changes.
//
// Threads: any, after the family has probed.

#ifndef KCACHE_BACKENDS_SDK_DEPENDS_ON_H_
#define KCACHE_BACKENDS_SDK_DEPENDS_ON_H_

#include <string>
#include <vector>

namespace kcache::backend {

// Absolute paths, sorted; some need not exist.
std::vector<std::string> ProbeDependencies();

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_DEPENDS_ON_H_
