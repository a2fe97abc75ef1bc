// Twelve kinds of program that no compiler should be asked to compile. Where a real compiler can be
// made to do the harm by its input, it is; what only somebody who has taken a compiler over could do,
// the fake backend's compiler does when told (backends/fake/attempt.h). All of them run in the same
// sandbox, each in its backend's compile worker.
//
// Threads: pure functions.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_HOSTILE_PROGRAMS_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_HOSTILE_PROGRAMS_H_

#include <sys/types.h>

#include <string>
#include <vector>

#include "kcache/artifact.h"
#include "kcache/client.h"

namespace kcache::domains {

struct HostileProgram {
  std::string kind;      // "crash"
  std::string how;       // "nested a hundred thousand deep"
  CompileTarget target;  // whose framework says which compiler
  std::string language;
  std::string source;
  std::vector<std::pair<std::string, std::string>> headers;
  // What its failure may be. Anything else, and success above all, is not contained.
  std::vector<Reason> reasons;
  // Must not be found in what the compiler answers, be it a message or a binary.
  std::string secret = {};
  // It may compile: the secret alone counts.
  bool may_compile = false;
};

// What the programs aim at.
struct HostileAims {
  pid_t daemon = 0;
  int port = 0;                  // somebody listens there on 127.0.0.1
  std::string state_directory;   // kcached's
  std::string other_directory;   // the private directory of another compile that is running
  std::string secret_file;       // readable to everybody, outside every sandbox
  std::string secret;            // what is in it
};

inline constexpr int kHostileKinds = 12;

// At least one of each kind, in the order of the kinds. Compilers that `architectures` does not name
// are not used; "OpenCL" and "Fake" must be there.
std::vector<HostileProgram> HostilePrograms(
    const HostileAims& aims, const std::vector<CompileTarget>& architectures);

// A compile that goes on until it is ended, for those who need one that runs. `tag` makes it another.
HostileProgram EndlessProgram(const CompileTarget& opencl, const std::string& tag);

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_HOSTILE_PROGRAMS_H_
