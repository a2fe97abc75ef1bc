// Tries an architecture in a process that can be thrown away.
//
// Threads: any; each call has a child of its own and waits for it. Ownership: no child outlives its
// call.
#ifndef KCACHE_BACKENDS_HIP_ARCHITECTURE_TRIAL_H_
#define KCACHE_BACKENDS_HIP_ARCHITECTURE_TRIAL_H_

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace kcache::backend::hip {

// Runs `program --try-architecture=ARCHITECTURE` with no input and no output. OK when it exits with
// 0; UNSUPPORTED_ARCHITECTURE when it exits otherwise or dies; COMPILE_TIMEOUT when it has to be
// killed after 30 s; INTERNAL when it cannot be started.
absl::Status TryArchitecture(const std::string& program, const std::string& architecture);

// For main(): the architecture, when the program was started for a trial. The process then leaves
// no core file behind.
std::optional<std::string> RequestedTrial(int argc, char** argv);

}  // namespace kcache::backend::hip

#endif  // KCACHE_BACKENDS_HIP_ARCHITECTURE_TRIAL_H_
