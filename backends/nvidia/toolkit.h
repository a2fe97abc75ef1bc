// Where NVRTC, nvJitLink and the toolkit's headers are on this machine.
//
// Looked at, in this order: the directories in KCACHE_CUDA_TOOLKIT (separated by ':'), the loader's
// own path, /usr/local/cuda. A directory may be a toolkit (lib64/, include/) or a Python site
// directory into which NVIDIA's wheels were unpacked (nvidia/cu13/…, nvidia/cuda_nvrtc/…).
//
// Threads: Find may be called from any; a Toolkit is a value. Ownership: libraries that were opened
// stay open.
#ifndef KCACHE_BACKENDS_NVIDIA_TOOLKIT_H_
#define KCACHE_BACKENDS_NVIDIA_TOOLKIT_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/cudalike/rtc_api.h"
#include "backends/nvidia/ptx_linker.h"

namespace kcache::backend::nvidia {

// NVRTC's own functions beside those it shares with hipRTC.
struct NvrtcApi {
  cudalike::RtcApi common;
  cudalike::RtcOutput ptx;
  cudalike::RtcOutput cubin;
  cudalike::RtcResult (*get_num_supported_archs)(int*) = nullptr;
  cudalike::RtcResult (*get_supported_archs)(int*) = nullptr;
};

struct Toolkit {
  NvrtcApi nvrtc;
  std::string nvrtc_path;  // of the library's file
  int major = 0;
  int minor = 0;
  std::vector<std::string> include_directories;  // absolute, in search order; may be empty
  std::vector<int> compute_capabilities;         // that NVRTC knows: 75, 80, …
  std::optional<PtxLinker> ptx_linker;           // of NVRTC's major version, where it is there

  // "sm_90", "sm_90a", … that this NVRTC compiles for.
  std::vector<std::string> Architectures() const;
  std::string version() const;  // "NVRTC 13.0"
  // SHA-256 over the version, the identity of the libraries, and the names and contents of all
  // headers.
  std::string Fingerprint() const;
  // What a sandbox must show: the library's directory and the include directories.
  std::vector<std::string> ReadablePaths() const;
};

// BACKEND_UNAVAILABLE says what was looked for and where. `majors` are the NVRTC versions that will
// do, best first.
absl::StatusOr<Toolkit> FindToolkit(const std::vector<int>& majors = {13, 12});

}  // namespace kcache::backend::nvidia

#endif  // KCACHE_BACKENDS_NVIDIA_TOOLKIT_H_
