#include "backends/opencl/driver_caches.h"

#include <cctype>
#include <cstdlib>
#include <fstream>
#include <string>

namespace kcache::backend::opencl {
namespace {

// "580.95.05" out of the kernel module's version line; empty without the module.
std::string NvidiaDriverVersion() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string word;
  while (file >> word) {
    const bool is_version = std::isdigit(static_cast<unsigned char>(word[0])) != 0 &&
                            word.find('.') != std::string::npos;
    if (is_version) return word;
  }
  return {};
}

// Keeps NVIDIA's cache where an operator put it, or below the user's cache directory.
void KeepNvidiaCache() {
  const std::string version = NvidiaDriverVersion();
  if (version.empty() || std::getenv("CUDA_CACHE_PATH") != nullptr) return;
  std::filesystem::path base;
  if (const char* xdg = std::getenv("XDG_CACHE_HOME"); xdg != nullptr && *xdg != '\0') {
    base = xdg;
  } else if (const char* home = std::getenv("HOME"); home != nullptr && *home != '\0') {
    base = std::filesystem::path(home) / ".cache";
  } else {
    return;  // the driver's own default, which is off without a home
  }
  const std::filesystem::path cache = base / "kcached" / "nvidia-opencl" / version;
  std::error_code error;
  std::filesystem::create_directories(cache, error);
  if (error) return;
  std::filesystem::permissions(cache, std::filesystem::perms::owner_all, error);
  setenv("CUDA_CACHE_PATH", cache.c_str(), 1);
}

}  // namespace

absl::StatusOr<DriverCaches> DriverCaches::Isolate() {
  absl::StatusOr<PrivateDirectory> directory = PrivateDirectory::Make("kcache-pocl-");
  if (!directory.ok()) return directory.status();
  setenv("POCL_CACHE_DIR", directory->path().c_str(), 1);
  // What a user's shell asks of PoCL must not change what its compiler produces.
  for (const char* name : {"POCL_EXTRA_BUILD_FLAGS", "POCL_WORK_GROUP_METHOD", "POCL_KERNEL_CACHE",
                           "POCL_BINARY_SPECIALIZE_WG", "POCL_LEAVE_KERNEL_COMPILER_TEMP_FILES"}) {
    unsetenv(name);
  }
  KeepNvidiaCache();
  return DriverCaches(*std::move(directory));
}

}  // namespace kcache::backend::opencl
