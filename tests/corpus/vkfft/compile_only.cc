#include "tests/corpus/vkfft/compile_only.h"

#include "absl/strings/str_cat.h"
#include "kcache/artifact.h"
#include "tests/corpus/compile_role.h"

namespace kcache::corpus {
namespace {

constexpr uint64_t kPointerBytes = 8;

absl::Status CheckBinary(const std::string& format, size_t bytes, const std::string& architecture) {
  const bool amd = architecture.starts_with("gfx");
  if (format == (amd ? "code-object" : "cubin") && bytes > 0) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("the artifact is '", format, "' of ", bytes, " bytes"));
}

absl::Status CheckKernel(const KernelInfo& kernel) {
  if (!kernel.arguments_known || kernel.arguments.size() < 2) {
    return absl::InternalError(absl::StrCat(kernel.entry, " has ", kernel.arguments.size(),
                                            " arguments, known: ", kernel.arguments_known));
  }
  for (const ArgumentInfo& argument : kernel.arguments) {
    if (argument.bytes == kPointerBytes) continue;
    return absl::InternalError(
        absl::StrCat(kernel.entry, " takes ", argument.bytes, " bytes, not a pointer"));
  }
  return absl::OkStatus();
}

absl::Status ThroughRole(const Place& place, const std::string& language, const std::string& source,
                         const std::string& entry) {
  v1::CompileRequest request;
  request.set_framework(place.framework);
  request.set_architecture(place.architecture);
  request.mutable_manifest()->set_language(language);
  request.set_source(source);
  auto artifact = place.role->Compile(request);
  if (!artifact.ok()) return artifact.status();
  absl::Status status =
      CheckBinary(artifact->format(), artifact->binary().size(), place.architecture);
  if (!status.ok()) return status;
  for (const v1::KernelInfo& from : artifact->kernels()) {
    if (from.entry() != entry) continue;
    KernelInfo kernel;
    kernel.entry = entry;
    kernel.arguments_known = from.arguments_known();
    for (const v1::ArgumentInfo& argument : from.arguments()) {
      kernel.arguments.emplace_back().bytes = argument.bytes();
    }
    return CheckKernel(kernel);
  }
  return absl::NotFoundError(absl::StrCat("the artifact has no entry ", entry));
}

absl::Status ThroughDaemon(const Place& place, const std::string& language,
                           const std::string& source, const std::string& entry) {
  auto program = Program::FromSource(language, source);
  if (!program.ok()) return program.status();
  auto artifact =
      place.client->AcquireArtifact(*program, CompileTarget{place.framework, place.architecture});
  if (!artifact.ok()) return artifact.status();
  absl::Status status =
      CheckBinary(artifact->format(), artifact->Bytes().size(), place.architecture);
  if (!status.ok()) return status;
  for (const KernelInfo& kernel : artifact->kernels()) {
    if (kernel.entry == entry) return CheckKernel(kernel);
  }
  return absl::NotFoundError(absl::StrCat("the artifact has no entry ", entry));
}

}  // namespace

absl::Status CompileOnly(const Place& place, const std::string& language, const std::string& source,
                         const std::string& entry) {
  return place.role != nullptr ? ThroughRole(place, language, source, entry)
                               : ThroughDaemon(place, language, source, entry);
}

}  // namespace kcache::corpus
