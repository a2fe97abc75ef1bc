#include "backends/fake/family.h"

#include <fcntl.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/fake/compiler.h"
#include "backends/fake/context.h"
#include "contract/digest.h"
#include "contract/error_reason.h"

namespace kcache::backend::fake {
namespace {

std::string Fingerprint(const std::string& driver_version) {
  return Digest::Of(absl::StrCat(kCompilerVersion, " driver ", driver_version)).str();
}

}  // namespace

FakeFamily::FakeFamily() {
  absl::StatusOr<std::shared_ptr<Script>> script = Script::FromEnvironment();
  script_status_ = script.status();
  script_ = script.ok() ? *std::move(script) : std::make_shared<Script>();
}

absl::Status FakeFamily::Available() const {
  if (!script_status_.ok()) return script_status_;
  if (script_->unavailable().empty()) return absl::OkStatus();
  return MakeError(v1::BACKEND_UNAVAILABLE, script_->unavailable());
}

absl::Status FakeFamily::FindDriver(v1::ProbeReport* report) {
  const char* path = std::getenv("KCACHE_FAKE_DRIVER");
  if (path == nullptr) return absl::OkStatus();
  report->add_depends_on(path);
  std::ifstream driver(path);
  if (!driver) {
    return MakeError(v1::BACKEND_UNAVAILABLE, absl::StrCat("no driver at ", path));
  }
  std::getline(driver, driver_version_);
  return absl::OkStatus();
}

v1::DeviceInfo FakeFamily::Describe(uint32_t index) const {
  v1::DeviceInfo info;
  info.mutable_device()->set_framework(std::string(name()));
  info.mutable_device()->set_index(index);
  info.set_name("fake device " + std::to_string(index));
  info.set_vendor("kcache");
  info.set_uuid("fake-" + std::to_string(index));
  info.set_architecture(kArchitecture);
  info.set_driver_version(driver_version_);
  info.set_compiler_version(kCompilerVersion);
  info.set_compiler_fingerprint(Fingerprint(driver_version_));
  info.add_languages("fake");
  if (!script_->node().empty()) info.add_device_nodes(script_->node());
  info.set_state(v1::DEVICE_UP);
  v1::DeviceLimits* limits = info.mutable_limits();
  limits->set_memory_bytes(script_->memory());
  limits->set_max_allocation_bytes(script_->memory());
  limits->set_local_memory_bytes(48 << 10);
  limits->set_max_local_size(1024);
  limits->mutable_max_local_dims()->set_x(1024);
  limits->mutable_max_local_dims()->set_y(1024);
  limits->mutable_max_local_dims()->set_z(64);
  limits->set_max_grid_x(1u << 31);
  limits->set_max_grid_y(65535);
  limits->set_max_grid_z(65535);
  limits->set_compute_units(1);
  limits->set_buffer_offset_alignment(1);
  return info;
}

v1::ProbeReport FakeFamily::Probe() {
  v1::ProbeReport report;
  report.set_family(std::string(name()));
  report.set_backend_version("1");
  absl::Status available = Available();
  if (available.ok()) available = FindDriver(&report);
  report.set_available(available.ok());
  if (!available.ok()) {
    report.set_reason(std::string(available.message()));
    return report;
  }
  const Action action = script_->Call("Probe");
  if (action.kind == Action::Kind::kFail) {
    report.set_available(false);
    report.set_reason(std::string(action.status.message()));
    return report;
  }
  for (uint32_t i = 0; i < script_->devices(); ++i) *report.add_devices() = Describe(i);
  v1::CompileCapability* compiler = report.add_compilers();
  compiler->set_framework(std::string(name()));
  compiler->add_languages("fake");
  compiler->add_architectures(kArchitecture);
  compiler->set_compiler_version(kCompilerVersion);
  compiler->set_compiler_fingerprint(Fingerprint(driver_version_));
  report.mutable_compile_profile()->set_is_thread_safe(true);
  return report;
}

absl::StatusOr<std::unique_ptr<Compiler>> FakeFamily::MakeCompiler() {
  if (absl::Status status = Available(); !status.ok()) return status;
  return std::make_unique<FakeCompiler>(script_);
}

absl::StatusOr<std::unique_ptr<Context>> FakeFamily::OpenContext(const ContextOptions& options) {
  if (absl::Status status = Available(); !status.ok()) return status;
  if (options.index >= script_->devices()) {
    return MakeError(v1::UNKNOWN_DEVICE,
                     absl::StrCat("Fake:", options.index, ": there are ", script_->devices(),
                                  " devices, from Fake:0"));
  }
  const Action action = script_->Call("OpenContext", std::to_string(options.index));
  if (action.kind == Action::Kind::kFail) return action.status;
  // Held until the process ends, as drivers do.
  if (!script_->node().empty() && open(script_->node().c_str(), O_RDONLY | O_CLOEXEC) < 0) {
    return MakeError(v1::BACKEND_UNAVAILABLE,
                     script_->node() + ": " + std::strerror(errno));
  }
  return std::make_unique<FakeContext>(Describe(options.index), script_);
}

}  // namespace kcache::backend::fake
