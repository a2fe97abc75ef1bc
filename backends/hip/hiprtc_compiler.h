// The compile role on AMD's platform: hipRTC, opened at run time. Needs no GPU.
//
// hipRTC of ROCm 5.2 aborts its process for an architecture that it does not know. So each
// architecture is tried once in a process that can be thrown away, and one that does not survive it
// is UNSUPPORTED_ARCHITECTURE.
//
// Threads: one at a time. Ownership: libraries that were opened stay open.
#ifndef KCACHE_BACKENDS_HIP_HIPRTC_COMPILER_H_
#define KCACHE_BACKENDS_HIP_HIPRTC_COMPILER_H_

#include <functional>
#include <map>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/cudalike/rtc_api.h"
#include "backends/sdk/driver.h"

namespace kcache::backend::hip {

struct Hiprtc {
  cudalike::RtcApi api;
  cudalike::RtcOutput code;
  std::string version;      // "hipRTC 5.2"
  std::string fingerprint;  // version and identities of the libraries that compile
};

// libhiprtc.so.5 where it is a library of its own, else the one inside libamdhip64.so.5.
// BACKEND_UNAVAILABLE says what was looked for.
absl::StatusOr<Hiprtc> LoadHiprtc();

// OK when hipRTC compiles for the architecture; UNSUPPORTED_ARCHITECTURE when it does not.
using ArchitectureTrial = std::function<absl::Status(const std::string& architecture)>;

class HiprtcCompiler : public Compiler {
 public:
  HiprtcCompiler(absl::StatusOr<Hiprtc> hiprtc, ArchitectureTrial trial);

  absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request) override;

 private:
  absl::Status CheckArchitecture(const std::string& architecture);
  absl::StatusOr<v1::Artifact> CompileSource(const v1::CompileRequest& request);
  absl::StatusOr<v1::Artifact> TakeCodeObject(const v1::CompileRequest& request);

  const absl::StatusOr<Hiprtc> hiprtc_;
  const ArchitectureTrial trial_;
  std::map<std::string, absl::Status> tried_;
};

// Compiles an empty kernel for `architecture` in this process, which may end it. Returns the exit
// code that says whether it went well.
int CompileEmptyKernel(const std::string& architecture);

}  // namespace kcache::backend::hip

#endif  // KCACHE_BACKENDS_HIP_HIPRTC_COMPILER_H_
