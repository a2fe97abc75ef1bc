#include "backends/nvidia/driver_table.h"

#include <dlfcn.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::nvidia {
namespace {

constexpr char kLibrary[] = "libcuda.so.1";

absl::StatusOr<const DriverTable*> Open() {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* error = dlerror();
    const std::string why = error == nullptr ? "" : error;
    // The loader's message names the file; only a file that is there but does not load is news.
    const bool missing = why.find("No such file") != std::string::npos;
    return MakeError(v1::BACKEND_UNAVAILABLE, missing ? absl::StrCat(kLibrary, " not found") : why);
  }
  auto table = std::make_unique<DriverTable>();
// NOLINTNEXTLINE(bugprone-macro-parentheses): a type cannot be in parentheses
#define KCACHE_OPTIONAL(field, symbol, signature) \
  table->field = reinterpret_cast<std::add_pointer_t<signature>>(dlsym(library, symbol));
#define KCACHE_REQUIRED(field, symbol, signature)                                            \
  KCACHE_OPTIONAL(field, symbol, signature)                                                  \
  if (table->field == nullptr) {                                                             \
    return MakeError(v1::BACKEND_UNAVAILABLE,                                                \
                     absl::StrCat(kLibrary, " has no ", symbol, ": the driver is too old")); \
  }
  KCACHE_CUDA_DRIVER_FUNCTIONS(KCACHE_REQUIRED)
  KCACHE_CUDA_DRIVER_OPTIONAL_FUNCTIONS(KCACHE_OPTIONAL)
#undef KCACHE_REQUIRED
#undef KCACHE_OPTIONAL
  return table.release();
}

v1::ErrorReason ReasonFor(CuResult result, v1::ErrorReason otherwise) {
  switch (result) {
    case kCudaErrorOutOfMemory:
      return v1::OUT_OF_DEVICE_MEMORY;
    // A kernel did it; the driver refuses this process every further call.
    case kCudaErrorIllegalAddress:
    case kCudaErrorLaunchTimeout:
    case kCudaErrorAssert:
    case kCudaErrorHardwareStackError:
    case kCudaErrorIllegalInstruction:
    case kCudaErrorMisalignedAddress:
    case kCudaErrorInvalidAddressSpace:
    case kCudaErrorInvalidPc:
    case kCudaErrorLaunchFailed:
    case kCudaErrorTensorMemoryLeak:
      return v1::KERNEL_FAULT;
    // The device, the driver or the context went away.
    case kCudaErrorDeinitialized:
    case kCudaErrorDeviceUnavailable:
    case kCudaErrorInvalidContext:
    case kCudaErrorEccUncorrectable:
    case kCudaErrorNvlinkUncorrectable:
    case kCudaErrorContained:
    case kCudaErrorContextIsDestroyed:
    case kCudaErrorMpsRpcFailure:
    case kCudaErrorMpsClientTerminated:
    case kCudaErrorExternalDevice:
    case kCudaErrorUnknown:
      return v1::DEVICE_LOST;
    case kCudaErrorStubLibrary:
    case kCudaErrorNoDevice:
    case kCudaErrorInvalidDevice:
    case kCudaErrorSystemDriverMismatch:
      return v1::BACKEND_UNAVAILABLE;
    case kCudaErrorSystemNotReady:
    case kCudaErrorMpsServerNotReady:
    case kCudaErrorMpsConnectionFailed:
    case kCudaErrorMpsMaxClientsReached:
    case kCudaErrorMpsMaxConnectionsReached:
      return v1::NOT_READY;
    case kCudaErrorNoBinaryForGpu:
      return v1::UNSUPPORTED_ARCHITECTURE;
    case kCudaErrorInvalidImage:
    case kCudaErrorInvalidPtx:
    case kCudaErrorUnsupportedPtxVersion:
    case kCudaErrorJitCompilerNotFound:
    case kCudaErrorJitCompilationDisabled:
      return v1::COMPILE_FAILED;
    default:
      return otherwise;
  }
}

// Whether the hardware reports it for the whole card: no context on it survives.
bool IsPhysical(CuResult result) {
  return result == kCudaErrorEccUncorrectable || result == kCudaErrorNvlinkUncorrectable ||
         result == kCudaErrorDeviceUnavailable;
}

}  // namespace

absl::StatusOr<const DriverTable*> LoadDriver() {
  // Never destroyed: see the header.
  static const auto* const result = new absl::StatusOr<const DriverTable*>(Open());
  return *result;
}

absl::Status DriverError(const DriverTable& driver, CuResult result, std::string_view what,
                         v1::ErrorReason otherwise) {
  if (result == kCudaSuccess) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  if (driver.get_error_name(result, &name) != kCudaSuccess || name == nullptr) {
    name = "unknown CUDA error";
  }
  if (driver.get_error_string(result, &text) != kCudaSuccess || text == nullptr) text = "no text";
  ErrorDetails details = {{"cuda_error", name}};
  if (IsPhysical(result)) details["physical"] = "true";
  return MakeError(ReasonFor(result, otherwise),
                   absl::StrCat(AbslView(what), ": ", name, " (", result, "): ", text), details);
}

}  // namespace kcache::backend::nvidia
