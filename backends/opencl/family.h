// OpenCL as a family: every device of every installed driver.
//
// DriverCaches::Isolate() comes before the first use.
//
// Threads: one at a time.

#ifndef KCACHE_BACKENDS_OPENCL_FAMILY_H_
#define KCACHE_BACKENDS_OPENCL_FAMILY_H_

#include <memory>

#include "backends/sdk/driver.h"

namespace kcache::backend::opencl {

class OpenClFamily final : public Family {
 public:
  std::string_view name() const override { return "OpenCL"; }
  v1::ProbeReport Probe() override;
  absl::StatusOr<std::unique_ptr<Compiler>> MakeCompiler() override;
  absl::StatusOr<std::unique_ptr<Context>> OpenContext(const ContextOptions& options) override;
};

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_FAMILY_H_
