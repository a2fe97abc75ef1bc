// The compile role of the NVIDIA backends: NVRTC for C++, nvJitLink for PTX, and a reader for
// cubins that a caller brings. Needs no GPU and no driver.
//
//   language   framework "F"                              framework "F/PTX"
//   C++        cubin for exactly the architecture         PTX for it; the driver compiles it at
//   load "ptx"      the same; without nvJitLink it stays PTX   the PTX, checked "binary"   the
//   cubin, checked                         refused
//
// Threads: one at a time. Ownership: owns nothing but its toolkit's description.
#ifndef KCACHE_BACKENDS_NVIDIA_NVRTC_COMPILER_H_
#define KCACHE_BACKENDS_NVIDIA_NVRTC_COMPILER_H_

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/nvidia/toolkit.h"
#include "backends/sdk/driver.h"

namespace kcache::backend::nvidia {

// What differs between the families that use it.
struct NvrtcDialect {
  std::string language = "cuda-c++";      // what its C++ is called
  std::string source_name = "kcache.cu";  // in the compiler's messages
  std::vector<std::string> options;       // put before the program's own
  // Name and content of headers that every program has, unless it brings its own of that name.
  std::vector<std::pair<std::string, std::string>> headers;
};

class NvrtcCompiler : public Compiler {
 public:
  // Without a toolkit only "ptx" and "binary" compile; C++ fails with `missing`.
  NvrtcCompiler(absl::StatusOr<Toolkit> toolkit, NvrtcDialect dialect);

  absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request) override;

 private:
  absl::StatusOr<v1::Artifact> CompileSource(const v1::CompileRequest& request, bool to_ptx);
  absl::StatusOr<v1::Artifact> TakePtx(const v1::CompileRequest& request, bool to_ptx);
  absl::StatusOr<v1::Artifact> TakeCubin(const v1::CompileRequest& request, bool to_ptx);

  const absl::StatusOr<Toolkit> toolkit_;
  const NvrtcDialect dialect_;
  std::vector<std::string> architectures_;
};

// The compute capability that "sm_90", "sm_90a", "sm_100f" names; nullopt when it is not one.
std::optional<uint32_t> ComputeCapabilityOf(const std::string& architecture);

}  // namespace kcache::backend::nvidia

#endif  // KCACHE_BACKENDS_NVIDIA_NVRTC_COMPILER_H_
