#include "backends/hip/hip_table.h"

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::hip {
namespace {

v1::ErrorReason ReasonFor(HipResult result, v1::ErrorReason otherwise) {
  switch (result) {
    case kHipErrorOutOfMemory:
      return v1::OUT_OF_DEVICE_MEMORY;
    // A kernel did it.
    case kHipErrorPriorLaunchFailure:
    case kHipErrorIllegalAddress:
    case kHipErrorLaunchTimeOut:
    case kHipErrorAssert:
    case kHipErrorLaunchFailure:
      return v1::KERNEL_FAULT;
    // The device or its context went away. The NVIDIA platform reports every fault that HIP has no
    // number for as unknown.
    case kHipErrorDeinitialized:
    case kHipErrorInvalidContext:
    case kHipErrorEccNotCorrectable:
    case kHipErrorContextIsDestroyed:
    case kHipErrorUnknown:
    case kHipErrorRuntimeMemory:
    case kHipErrorRuntimeOther:
      return v1::DEVICE_LOST;
    case kHipErrorInsufficientDriver:
    case kHipErrorNoDevice:
    case kHipErrorInvalidDevice:
      return v1::BACKEND_UNAVAILABLE;
    case kHipErrorNoBinaryForGpu:
      return v1::UNSUPPORTED_ARCHITECTURE;
    case kHipErrorInvalidImage:
    case kHipErrorInvalidKernelFile:
      return v1::COMPILE_FAILED;
    default:
      return otherwise;
  }
}

}  // namespace

absl::Status HipError(const HipTable& hip, HipResult result, std::string_view what,
                      v1::ErrorReason otherwise) {
  if (result == kHipSuccess) return absl::OkStatus();
  const char* name = hip.error_name(result);
  const char* text = hip.error_string(result);
  if (name == nullptr) name = "unknown HIP error";
  ErrorDetails details = {{"hip_error", name}};
  if (result == kHipErrorEccNotCorrectable) details["physical"] = "true";
  return MakeError(ReasonFor(result, otherwise),
                   absl::StrCat(AbslView(what), ": ", name, " (", result,
                                "): ", text == nullptr ? "no text" : text),
                   details);
}

}  // namespace kcache::backend::hip
