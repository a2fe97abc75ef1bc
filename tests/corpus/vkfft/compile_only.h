// A program compiled where there is no device.
//
// Threads: one call at a time for one place.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_COMPILE_ONLY_H_
#define KCACHE_TESTS_CORPUS_VKFFT_COMPILE_ONLY_H_

#include <string>

#include "absl/status/status.h"
#include "tests/corpus/vkfft/place.h"

namespace kcache::corpus {

// Through the place's compile role or its daemon. OK when that gives a binary in which `entry` is a
// kernel whose arguments are all known, and pointers.
absl::Status CompileOnly(const Place& place, const std::string& language, const std::string& source,
                         const std::string& entry);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_COMPILE_ONLY_H_
