// nvJitLink, which finishes PTX to a cubin without a GPU. Optional: without it PTX stays PTX and
// the driver compiles it whenever it is loaded.
//
// Threads: one at a time. Ownership: the library stays open.
#ifndef KCACHE_BACKENDS_NVIDIA_PTX_LINKER_H_
#define KCACHE_BACKENDS_NVIDIA_PTX_LINKER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace kcache::backend::nvidia {

class PtxLinker {
 public:
  struct Output {
    std::string cubin;
    std::string log;
  };

  // Nothing when `path` cannot be opened or lacks a function.
  static std::optional<PtxLinker> Open(const std::string& path);

  const std::string& path() const { return path_; }

  // COMPILE_FAILED carries the log; BAD_REQUEST a flag that it does not take.
  absl::StatusOr<Output> Link(const std::string& ptx, const std::string& architecture,
                              const std::vector<std::string>& flags) const;

 private:
  using Handle = void*;
  using Result = int;

  PtxLinker() = default;
  std::string Log(Handle handle, Result (*size)(Handle, size_t*),
                  Result (*get)(Handle, char*)) const;

  std::string path_;
  Result (*create_)(Handle*, uint32_t, const char**) = nullptr;
  Result (*destroy_)(Handle*) = nullptr;
  Result (*add_data_)(Handle, int, const void*, size_t, const char*) = nullptr;
  Result (*complete_)(Handle) = nullptr;
  Result (*cubin_size_)(Handle, size_t*) = nullptr;
  Result (*cubin_)(Handle, void*) = nullptr;
  Result (*error_log_size_)(Handle, size_t*) = nullptr;
  Result (*error_log_)(Handle, char*) = nullptr;
  Result (*info_log_size_)(Handle, size_t*) = nullptr;
  Result (*info_log_)(Handle, char*) = nullptr;
};

}  // namespace kcache::backend::nvidia

#endif  // KCACHE_BACKENDS_NVIDIA_PTX_LINKER_H_
