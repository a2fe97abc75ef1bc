#include "backends/opencl/family.h"

#include <utility>
#include <vector>

#include "backends/opencl/compiler.h"
#include "backends/opencl/context.h"
#include "backends/opencl/device_catalog.h"
#include "backends/opencl/device_description.h"
#include "contract/error_reason.h"

namespace kcache::backend::opencl {
namespace {

// One entry for each pair of architecture and compiler that the devices here have.
void DescribeCompilers(v1::ProbeReport* report) {
  for (const v1::DeviceInfo& device : report->devices()) {
    if (device.languages_size() < 2) continue;  // takes binaries only: no compiler
    bool known = false;
    for (const v1::CompileCapability& compiler : report->compilers()) {
      known |= compiler.compiler_fingerprint() == device.compiler_fingerprint() &&
               compiler.architectures(0) == device.architecture();
    }
    if (known) continue;
    v1::CompileCapability* compiler = report->add_compilers();
    compiler->set_framework("OpenCL");
    *compiler->mutable_languages() = device.languages();
    compiler->add_architectures(device.architecture());
    compiler->set_compiler_version(device.compiler_version());
    compiler->set_compiler_fingerprint(device.compiler_fingerprint());
  }
}

}  // namespace

v1::ProbeReport OpenClFamily::Probe() {
  v1::ProbeReport report;
  report.set_family(std::string(name()));
  absl::StatusOr<std::vector<CatalogDevice>> catalog = ListDevices();
  if (!catalog.ok()) {
    report.set_reason(std::string(catalog.status().message()));
    return report;
  }
  if (catalog->empty()) {
    report.set_reason(
        "no OpenCL driver is registered in /etc/OpenCL/vendors, or none has a device");
    return report;
  }
  report.set_available(true);
  bool has_pocl = false;
  for (uint32_t index = 0; index < catalog->size(); ++index) {
    *report.add_devices() = DescribeDevice((*catalog)[index], index);
    has_pocl |= IsPocl((*catalog)[index].platform);
  }
  DescribeCompilers(&report);

  v1::CompileProfile* profile = report.mutable_compile_profile();
  profile->set_executes_programs(has_pocl);  // it runs a linker
  profile->set_needs_device(true);           // OpenCL compiles for the devices of a context
  for (const char* path : {"/etc/OpenCL", "/usr/share/pocl"}) profile->add_readable_paths(path);
  for (const v1::DeviceInfo& device : report.devices()) {
    for (const std::string& node : device.device_nodes()) profile->add_device_nodes(node);
  }
  return report;
}

absl::StatusOr<std::unique_ptr<Compiler>> OpenClFamily::MakeCompiler() {
  return OpenClCompiler::Make();
}

absl::StatusOr<std::unique_ptr<Context>> OpenClFamily::OpenContext(const ContextOptions& options) {
  if (!options.variant.empty()) {
    return MakeError(v1::UNKNOWN_DEVICE, "OpenCL has no variant " + options.variant);
  }
  absl::StatusOr<CatalogDevice> device = FindDevice(options.index);
  if (!device.ok()) return device.status();
  return OpenClContext::Open(*device, DescribeDevice(*device, options.index));
}

}  // namespace kcache::backend::opencl
