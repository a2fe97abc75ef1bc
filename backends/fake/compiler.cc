#include "backends/fake/compiler.h"

#include <cstdlib>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/fake/language.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend::fake {
namespace {

v1::KernelInfo Reflect(const KernelCode& code) {
  v1::KernelInfo info;
  info.set_entry(code.name);
  info.set_lowered_name(code.name);
  info.set_arguments_known(true);
  for (const Parameter& parameter : code.parameters) {
    v1::ArgumentInfo* argument = info.add_arguments();
    argument->set_name(parameter.name);
    argument->set_type_name(NameOf(parameter.type));
    switch (parameter.kind) {
      case Parameter::Kind::kBuffer:
        argument->set_kind(v1::ARGUMENT_BUFFER);
        break;
      case Parameter::Kind::kScalar:
        argument->set_kind(v1::ARGUMENT_SCALAR);
        argument->set_bytes(SizeOf(parameter.type));
        break;
      case Parameter::Kind::kLocal:
        argument->set_kind(v1::ARGUMENT_LOCAL_MEMORY);
        break;
    }
  }
  if (code.required_local != 0) {
    info.mutable_required_local_size()->set_x(code.required_local);
    info.mutable_required_local_size()->set_y(1);
    info.mutable_required_local_size()->set_z(1);
  }
  return info;
}

}  // namespace

absl::StatusOr<v1::Artifact> FakeCompiler::Compile(const v1::CompileRequest& request) {
  if (request.manifest().language() != "fake" && request.manifest().language() != "binary") {
    return MakeError(v1::UNSUPPORTED_LANGUAGE, "the fake compiles \"fake\", not " +
                                                   Quoted(request.manifest().language()));
  }
  if (!request.architecture().empty() && request.architecture() != kArchitecture) {
    return MakeError(v1::UNSUPPORTED_ARCHITECTURE,
                     "the fake compiles for " + std::string(kArchitecture) + ", not " +
                         Quoted(request.architecture()));
  }
  Environment environment;
  for (const v1::HeaderFile& header : request.headers()) {
    environment.headers[header.name()] = header.content();
  }
  v1::Artifact artifact;
  for (const v1::Define& define : request.manifest().defines()) {
    const std::string value = define.has_value() ? define.value() : "1";
    environment.defines[define.name()] = std::strtod(value.c_str(), nullptr);
    (*artifact.mutable_extra())[define.name()] = value;
  }
  // The program's own wishes come first, then the environment's.
  Script own;
  if (absl::Status bad = own.AddPragmas(request.source()); !bad.ok()) {
    return MakeError(v1::COMPILE_FAILED, bad.message().data());
  }
  for (Script* script : {&own, script_.get()}) {
    const Action action = script->Call("Compile");
    if (action.kind == Action::Kind::kFail) return action.status;
    if (action.kind == Action::Kind::kLog) artifact.mutable_build_log()->append(action.number, '.');
  }
  absl::StatusOr<std::string> text = Preprocess(request.source(), environment);
  if (!text.ok()) return text.status();
  absl::StatusOr<ProgramCode> code = Parse(*text, environment);
  if (!code.ok()) return code.status();
  artifact.set_format("fake");
  artifact.set_architecture(kArchitecture);
  artifact.set_binary(*std::move(text));
  for (const KernelCode& kernel : code->kernels) *artifact.add_kernels() = Reflect(kernel);
  return artifact;
}

}  // namespace kcache::backend::fake
