#include "client/src/cuda_driver.h"

#include <dlfcn.h>

#include "contract/error_reason.h"

namespace kcache::internal {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

template <typename Function>
bool Resolve(void* library, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(dlsym(library, name));
  return *function != nullptr;
}

absl::StatusOr<const CudaDriver*> Open() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return MakeError(v1::BACKEND_UNAVAILABLE, std::string(kLibrary) + " not found");
  }
  static CudaDriver driver;
  const bool resolved = Resolve(library, "cuGetErrorName", &driver.get_error_name) &&
                        Resolve(library, "cuCtxGetCurrent", &driver.context_get_current) &&
                        Resolve(library, "cuCtxPushCurrent_v2", &driver.context_push) &&
                        Resolve(library, "cuCtxPopCurrent_v2", &driver.context_pop) &&
                        Resolve(library, "cuModuleLoadData", &driver.module_load_data) &&
                        Resolve(library, "cuModuleUnload", &driver.module_unload) &&
                        Resolve(library, "cuModuleGetFunction", &driver.module_get_function);
  if (!resolved) {
    return MakeError(v1::BACKEND_UNAVAILABLE, std::string(kLibrary) + " lacks functions");
  }
  return &driver;
}

}  // namespace

absl::StatusOr<const CudaDriver*> LoadCudaDriver() {
  static const auto* const driver = new absl::StatusOr<const CudaDriver*>(Open());
  return *driver;
}

}  // namespace kcache::internal
