#include "tests/conformance/backend.h"

namespace kcache::conformance {

std::string_view RoleName(Role role) {
  switch (role) {
    case Role::kVectorAdd:
      return "vector_add";
    case Role::kSaxpy:
      return "saxpy";
    case Role::kIndex3d:
      return "index3d";
    case Role::kReduce:
      return "reduce";
    case Role::kReduceDynamic:
      return "reduce_dynamic";
    case Role::kBytes:
      return "bytes";
    case Role::kTwoEntries:
      return "two_entries";
    case Role::kHeader:
      return "header";
    case Role::kFlag:
      return "flag";
    case Role::kScalars:
      return "scalars";
    case Role::kSpecialized:
      return "specialized";
    case Role::kTemplate:
      return "template";
    case Role::kIncrement:
      return "increment";
    case Role::kSetFlag:
      return "set_flag";
    case Role::kAwaitFlag:
      return "await_flag";
    case Role::kEndless:
      return "endless";
    case Role::kFault:
      return "fault";
    case Role::kCompileError:
      return "compile_error";
  }
  return "unknown";
}

std::vector<Backend> AllBackends() {
  return {FakeBackend(), OpenClBackend(),  VulkanBackend(),
          CudaBackend(), CudaPtxBackend(), HipBackend()};
}

}  // namespace kcache::conformance
