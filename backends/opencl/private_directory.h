// A directory of this process alone, removed with everything in it when the owner goes.
//
// Threads: a value of one thread.

#ifndef KCACHE_BACKENDS_OPENCL_PRIVATE_DIRECTORY_H_
#define KCACHE_BACKENDS_OPENCL_PRIVATE_DIRECTORY_H_

#include <filesystem>
#include <string_view>

#include "absl/status/statusor.h"

namespace kcache::backend::opencl {

class PrivateDirectory {
 public:
  // Below $TMPDIR, or /tmp, with mode 0700.
  static absl::StatusOr<PrivateDirectory> Make(std::string_view prefix);

  PrivateDirectory() = default;
  ~PrivateDirectory();
  PrivateDirectory(PrivateDirectory&& other) noexcept;
  PrivateDirectory& operator=(PrivateDirectory&& other) noexcept;

  const std::filesystem::path& path() const { return path_; }

 private:
  explicit PrivateDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;  // empty: owns nothing
};

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_PRIVATE_DIRECTORY_H_
