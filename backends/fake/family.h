// The fake family: as many devices as the script says, all in this process.
//
// Threads: one at a time.

#ifndef KCACHE_BACKENDS_FAKE_FAMILY_H_
#define KCACHE_BACKENDS_FAKE_FAMILY_H_

#include <memory>

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
  absl::Status Available() const;

  std::shared_ptr<Script> script_;
  absl::Status script_status_;
};

}  // namespace kcache::backend::fake

#endif  // KCACHE_BACKENDS_FAKE_FAMILY_H_
