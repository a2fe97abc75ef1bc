// The compile role: OpenCL C, SPIR-V or a device binary in; a finished device binary with
// reflection, build log and the local sizes it is finished for out.
//
// PoCL reads POCL_BINARY_SPECIALIZE_WG, by which programs are finished (pocl_finisher.h), once in a
// process. So compiles for PoCL run in processes of their own (child_compile.h), each for one list
// of local sizes; other drivers compile in this process. When such a process dies of a signal, so
// does the worker, of the same: a crash of the compiler has one meaning for whoever supervises
// workers.
//
// Threads: one at a time. A compile changes the process's working directory while it runs.
// Ownership: contexts are made per device at first use and live as long as the compiler.

#ifndef KCACHE_BACKENDS_OPENCL_COMPILER_H_
#define KCACHE_BACKENDS_OPENCL_COMPILER_H_

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "backends/opencl/child_compile.h"
#include "backends/opencl/cl_object.h"
#include "backends/opencl/device_catalog.h"
#include "backends/opencl/private_directory.h"
#include "backends/sdk/driver.h"

namespace kcache::backend::opencl {

class OpenClCompiler final : public Compiler {
 public:
  static absl::StatusOr<std::unique_ptr<OpenClCompiler>> Make();

  absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request) override;

  // Compiles in this process. `pocl_cache`: the directory that POCL_CACHE_DIR names. With PoCL, a
  // program that needs other local sizes than the first one fails as IsOtherSizes tells.
  absl::StatusOr<v1::Artifact> CompileHere(const CatalogDevice& device,
                                           const v1::CompileRequest& request,
                                           const std::filesystem::path& pocl_cache);

 private:
  explicit OpenClCompiler(PrivateDirectory directory) : directory_(std::move(directory)) {}

  absl::StatusOr<cl_context> ContextOf(const CatalogDevice& device);

  PrivateDirectory directory_;  // holds the headers of the running compile
  std::map<cl_device_id, ClContext> contexts_;
  std::optional<std::string> settled_on_;  // PoCL: the local sizes of this process
  CompileChildren children_;
};

bool IsOtherSizes(const absl::Status& status);

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_COMPILER_H_
