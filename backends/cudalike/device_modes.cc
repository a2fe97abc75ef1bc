#include "backends/cudalike/device_modes.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace kcache::backend::cudalike {
namespace {

// Both APIs number them alike.
constexpr int kDefault = 0;
constexpr int kExclusiveThread = 1;  // HIP's, and CUDA's before 8
constexpr int kProhibited = 2;
constexpr int kExclusiveProcess = 3;

std::string NameOf(int mode) {
  switch (mode) {
    case kDefault:
      return "default";
    case kExclusiveThread:
      return "exclusive";
    case kProhibited:
      return "prohibited";
    case kExclusiveProcess:
      return "exclusive-process";
    default:
      return absl::StrCat("mode ", mode);
  }
}

}  // namespace

void DescribeModes(const DeviceModes& modes, v1::DeviceInfo* info) {
  info->set_compute_mode(NameOf(modes.compute_mode));
  info->set_mps(modes.mps);
  info->set_mig(modes.mig);
  info->set_state(v1::DEVICE_UP);
  std::vector<std::string> weakened;
  if (modes.compute_mode == kProhibited) {
    info->set_state(v1::DEVICE_UNAVAILABLE);
    weakened.emplace_back("compute mode prohibited: no context can be made");
  }
  const bool exclusive =
      modes.compute_mode == kExclusiveProcess || modes.compute_mode == kExclusiveThread;
  // Under MPS the one process is the service's.
  if (exclusive && !modes.mps) {
    weakened.push_back(absl::StrCat("compute mode ", NameOf(modes.compute_mode),
                                    ": one process at a time, so a second trust domain is "
                                    "refused while the first has a context"));
  }
  if (modes.mps) {
    weakened.emplace_back(
        "MPS: a kernel's fault can end the contexts of other processes on this device");
  }
  if (modes.mig) {
    weakened.emplace_back("MIG instance: destroying it physically would reset its neighbours");
  }
  info->set_reason(absl::StrJoin(weakened, "; "));
}

}  // namespace kcache::backend::cudalike
