// Tests of a context on a real device, the same for CUDA, CUDA/PTX and HIP. A test program links
// device_suite.cc and instantiates the suite for its families; without a device every case is
// skipped with the reason.
#ifndef KCACHE_BACKENDS_CUDALIKE_DEVICE_SUITE_H_
#define KCACHE_BACKENDS_CUDALIKE_DEVICE_SUITE_H_

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "backends/sdk/driver.h"

namespace kcache::backend::cudalike {

struct DeviceSuiteParameters {
  std::function<std::unique_ptr<Family>()> make_family;
  std::string framework;  // "CUDA", "CUDA/PTX", "HIP"
  std::string language;   // of the suite's sources

  friend void PrintTo(const DeviceSuiteParameters& parameters, std::ostream* out) {
    *out << parameters.framework;
  }
};

class DeviceSuite : public testing::TestWithParam<DeviceSuiteParameters> {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Compiles for the device, with ASSERT-like failures.
  v1::Artifact Compile(const std::string& source, const std::vector<std::string>& expressions = {});
  KernelHandle Resolve(ModuleHandle module, const v1::Artifact& artifact, const std::string& entry,
                       v1::KernelInfo* info = nullptr);
  // Compiles, loads and resolves one entry.
  KernelHandle Kernel(const std::string& source, const std::string& entry);
  MemoryHandle Buffer(uint64_t bytes, MemoryKind kind = MemoryKind::kDevice);
  void Write(MemoryHandle memory, std::string_view data, uint64_t offset = 0);
  std::string Read(MemoryHandle memory, uint64_t bytes, uint64_t offset = 0);
  absl::Status Finish(QueueHandle queue);
  absl::Status Launch(QueueHandle queue, KernelHandle kernel, Extent grid, Extent block,
                      const std::vector<KernelArgument>& arguments, uint32_t dynamic_bytes = 0,
                      uint32_t repeat = 1);

  std::unique_ptr<Family> family_;
  std::unique_ptr<Context> context_;
  QueueHandle queue_ = 0;
  LoadStatistics statistics_;
};

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_DEVICE_SUITE_H_
