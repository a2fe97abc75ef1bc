// kcache-backend-opencl: the OpenCL family as a backend program.

#include <cstdio>
#include <memory>
#include <string>

#include "backends/opencl/child_compile.h"
#include "backends/opencl/driver_caches.h"
#include "backends/opencl/family.h"
#include "backends/sdk/driver.h"

int main(int argc, char** argv) {
  using kcache::backend::opencl::DriverCaches;
  using kcache::backend::opencl::OpenClFamily;
  if (kcache::backend::opencl::IsCompileChild(argc, argv)) {
    return kcache::backend::opencl::RunCompileChild(argv);
  }
  const absl::StatusOr<DriverCaches> caches = DriverCaches::Isolate();
  if (!caches.ok()) {
    std::fprintf(stderr, "kcache-backend-opencl: %s\n",
                 std::string(caches.status().message()).c_str());
    return 1;
  }
  return kcache::backend::BackendMain(argc, argv, std::make_unique<OpenClFamily>());
}
