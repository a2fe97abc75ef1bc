#include "contract/error_reason.h"
#include "tests/corpus/executor.h"
namespace kcache::corpus {
absl::StatusOr<std::unique_ptr<Executor>> MakeDaemonExecutor(uint32_t) {
  return MakeError(v1::BACKEND_UNAVAILABLE, "built without the client library");
}
}  // namespace kcache::corpus
