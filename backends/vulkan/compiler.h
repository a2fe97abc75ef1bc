// The compile role: GLSL and SPIR-V in, SPIR-V with reflection out, finished on the device.
//
// Languages: "glsl" (flags: glsl_compiler.h), "spirv", and "binary", which is SPIR-V too. All take
// one flag more, --no-pipeline: the driver then compiles nothing here, for artifacts that the
// application loads itself.
//
// For the architecture "spirv" no device is needed and none is touched. For a device's own
// architecture ("spirv-<pipeline cache UUID>") the compiler opens that device, makes a pipeline of
// every entry point that can be launched, with the default specialization and the local sizes that
// the manifest names, and keeps what the driver compiled as extra["pipeline-cache"], so that a host
// finds it there.
//
// Threads: one at a time. Ownership: keeps the device open for the next compile.

#ifndef KCACHE_BACKENDS_VULKAN_COMPILER_H_
#define KCACHE_BACKENDS_VULKAN_COMPILER_H_

#include <memory>
#include <string>

#include "backends/sdk/driver.h"
#include "backends/vulkan/device.h"
#include "backends/vulkan/glsl_compiler.h"
#include "backends/vulkan/spirv_module.h"

namespace kcache::backend::vulkan {

// The architecture of SPIR-V that is not finished for any device.
inline constexpr char kPlainArchitecture[] = "spirv";

class VulkanCompiler : public Compiler {
 public:
  // `instance` may be null: then `unavailable` says why.
  VulkanCompiler(std::shared_ptr<Instance> instance, absl::Status unavailable);
  ~VulkanCompiler() override;

  absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request) override;

 private:
  absl::StatusOr<std::string> ToSpirv(const v1::CompileRequest& request,
                                      const std::vector<std::string>& flags, std::string* log);
  absl::StatusOr<Device*> OpenDevice(const v1::CompileRequest& request);
  absl::Status Finish(const v1::CompileRequest& request, SpirvModule module,
                      v1::Artifact* artifact);

  const std::shared_ptr<Instance> instance_;
  const absl::Status unavailable_;
  std::unique_ptr<Device> device_;
};

// COMPILE_FAILED with the validator's message when `spirv` breaks a rule of SPIR-V or Vulkan.
absl::Status ValidateSpirv(std::string_view spirv);

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_COMPILER_H_
