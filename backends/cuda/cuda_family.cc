#include "backends/cuda/cuda_family.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/cudalike/stream_context.h"
#include "backends/nvidia/cuda_stream_api.h"
#include "backends/nvidia/device_probe.h"
#include "backends/nvidia/driver_table.h"
#include "backends/nvidia/nvrtc_compiler.h"
#include "backends/nvidia/toolkit.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::cuda {
namespace {

constexpr char kFamily[] = "CUDA";
constexpr char kPtxFramework[] = "CUDA/PTX";
constexpr char kPtxVariant[] = "PTX";

// What compiles for `framework`, with or without a GPU.
v1::CompileCapability Capability(const std::string& framework,
                                 const absl::StatusOr<nvidia::Toolkit>& toolkit,
                                 const std::string& fingerprint) {
  v1::CompileCapability capability;
  capability.set_framework(framework);
  capability.add_languages("cuda-c++");
  capability.add_languages("ptx");
  if (framework == kFamily) capability.add_languages("binary");
  if (!toolkit.ok()) {
    capability.set_unavailable(std::string(toolkit.status().message()));
    return capability;
  }
  for (const std::string& architecture : toolkit->Architectures()) {
    capability.add_architectures(architecture);
  }
  capability.set_compiler_version(toolkit->version());
  capability.set_compiler_fingerprint(fingerprint);
  return capability;
}

class CudaFamily : public Family {
 public:
  std::string_view name() const override { return kFamily; }

  v1::ProbeReport Probe() override {
    v1::ProbeReport report;
    report.set_family(kFamily);
    const absl::StatusOr<nvidia::Toolkit> toolkit = nvidia::FindToolkit();
    const std::string fingerprint = toolkit.ok() ? toolkit->Fingerprint() : "";
    *report.add_compilers() = Capability(kFamily, toolkit, fingerprint);
    *report.add_compilers() = Capability(kPtxFramework, toolkit, fingerprint);
    v1::CompileProfile* profile = report.mutable_compile_profile();
    if (toolkit.ok()) {
      for (const std::string& path : toolkit->ReadablePaths()) profile->add_readable_paths(path);
    }
    absl::StatusOr<std::vector<v1::DeviceInfo>> devices = Devices();
    if (!devices.ok()) {
      report.set_reason(std::string(devices.status().message()));
      return report;
    }
    report.set_available(true);
    if (devices->empty()) report.set_reason("the driver lists no device");
    for (v1::DeviceInfo& device : *devices) {
      Complete(toolkit, fingerprint, &device);
      *report.add_devices() = std::move(device);
    }
    return report;
  }

  absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler() override {
    return std::make_unique<nvidia::NvrtcCompiler>(nvidia::FindToolkit(), nvidia::NvrtcDialect());
  }

  absl::StatusOr<std::unique_ptr<Context>> OpenContext(const ContextOptions& options) override {
    if (!options.variant.empty() && options.variant != kPtxVariant) {
      return MakeError(
          v1::UNKNOWN_DEVICE,
          absl::StrCat("CUDA has no variant ", Quoted(options.variant), ", only ", kPtxVariant));
    }
    absl::StatusOr<std::vector<v1::DeviceInfo>> devices = Devices();
    if (!devices.ok()) return devices.status();
    const auto ordinal = static_cast<size_t>(nvidia::OrdinalOf(options.index));
    if (ordinal >= devices->size()) {
      return MakeError(v1::UNKNOWN_DEVICE, absl::StrCat("no CUDA device ", options.index,
                                                        "; the driver lists ", devices->size()));
    }
    absl::StatusOr<const nvidia::DriverTable*> driver = nvidia::LoadDriver();
    if (!driver.ok()) return driver.status();
    absl::StatusOr<std::unique_ptr<cudalike::StreamApi>> api =
        nvidia::CudaStreamApi::Open(**driver, static_cast<int>(ordinal));
    if (!api.ok()) return api.status();
    v1::DeviceInfo info = (*devices)[ordinal];
    // A confined process counts from 0; the index is the one that was asked for.
    info.mutable_device()->set_index(options.index);
    Complete(absl::UnavailableError(""), "", &info);
    return std::make_unique<cudalike::StreamContext>(*std::move(api), std::move(info));
  }

 private:
  static absl::StatusOr<std::vector<v1::DeviceInfo>> Devices() {
    absl::StatusOr<const nvidia::DriverTable*> driver = nvidia::LoadDriver();
    if (!driver.ok()) return driver.status();
    if (absl::Status status = nvidia::InitializeDriver(**driver); !status.ok()) return status;
    return nvidia::ListDevices(**driver, kFamily);
  }

  static void Complete(const absl::StatusOr<nvidia::Toolkit>& toolkit,
                       const std::string& fingerprint, v1::DeviceInfo* device) {
    device->add_variants(kPtxVariant);
    device->add_languages("cuda-c++");
    device->add_languages("ptx");
    device->add_languages("binary");
    if (!toolkit.ok()) return;
    device->set_compiler_version(toolkit->version());
    device->set_compiler_fingerprint(fingerprint);
  }
};

}  // namespace

std::unique_ptr<Family> MakeCudaFamily() { return std::make_unique<CudaFamily>(); }

}  // namespace kcache::backend::cuda
