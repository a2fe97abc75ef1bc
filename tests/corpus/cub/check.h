// What compiling one program of the corpus must give.
//
// Threads: pure functions, any thread.
#ifndef KCACHE_TESTS_CORPUS_CUB_CHECK_H_
#define KCACHE_TESTS_CORPUS_CUB_CHECK_H_

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/v1/backend.pb.h"
#include "programs.h"

namespace kcache::corpus {

v1::CompileRequest CompileRequestOf(const CubProgram& program, std::string_view architecture);

// A cubin with the one entry `run` of two pointers, for blocks of the program's size.
absl::Status CheckArtifact(const CubProgram& program, const v1::Artifact& artifact);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_CUB_CHECK_H_
