// The fake family: as many devices as the script says, all in this process.
//
// Threads: one at a time.

#ifndef KCACHE_BACKENDS_FAKE_FAMILY_H_
#define KCACHE_BACKENDS_FAKE_FAMILY_H_

#include <memory>
#include <string>

#include "backends/fake/script.h"
#include "backends/sdk/driver.h"

namespace kcache::backend::fake {

class FakeFamily final : public Family {
 public:
  // A script that is not understood makes the family unavailable, because …
  FakeFamily();
  explicit FakeFamily(std::shared_ptr<Script> script) : script_(std::move(script)) {}

  std::string_view name() const override { return "Fake"; }
  v1::ProbeReport Probe() override;
  absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler() override;
  absl::StatusOr<std::unique_ptr<Context>> OpenContext(const ContextOptions& options) override;

 private:
  v1::DeviceInfo Describe(uint32_t index) const;
  // KCACHE_FAKE_DRIVER names a file that plays the driver: without it there are no devices, and its first
  // line is the version of driver and compiler. Only a probe looks: hosts and workers see no such file.
  absl::Status FindDriver(v1::ProbeReport* report);
  absl::Status Available() const;

  std::shared_ptr<Script> script_;
  absl::Status script_status_;
  std::string driver_version_ = "1";
};

}  // namespace kcache::backend::fake

#endif  // KCACHE_BACKENDS_FAKE_FAMILY_H_
