#include "check.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace kcache::corpus {

v1::CompileRequest CompileRequestOf(const CubProgram& program, std::string_view architecture) {
  v1::CompileRequest request;
  request.set_framework("CUDA");
  request.set_architecture(std::string(architecture));
  request.mutable_manifest()->set_language("cuda-c++");
  request.set_source(program.source);
  return request;
}

absl::Status CheckArtifact(const CubProgram& program, const v1::Artifact& artifact) {
  if (artifact.format() != "cubin" || artifact.binary().empty()) {
    return absl::InternalError(absl::StrCat("the artifact is '", artifact.format(), "' of ",
                                            artifact.binary().size(), " bytes"));
  }
  if (artifact.kernels_size() != 1 || artifact.kernels(0).entry() != "run") {
    return absl::InternalError(absl::StrCat(artifact.kernels_size(), " entries, not run alone"));
  }
  const v1::KernelInfo& kernel = artifact.kernels(0);
  if (!kernel.arguments_known() || kernel.arguments_size() != 2 ||
      kernel.arguments(0).bytes() != 8 || kernel.arguments(1).bytes() != 8) {
    return absl::InternalError(
        absl::StrCat("arguments are not two pointers: ", kernel.ShortDebugString()));
  }
  if (kernel.max_local_size() != program.threads) {
    return absl::InternalError(
        absl::StrCat("launch bounds are ", kernel.max_local_size(), ", not ", program.threads));
  }
  return absl::OkStatus();
}

}  // namespace kcache::corpus
