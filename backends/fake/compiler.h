// The fake's compiler: checks a program and keeps its text as the binary. Touches no device.
//
// Threads: one at a time.

#ifndef KCACHE_BACKENDS_FAKE_COMPILER_H_
#define KCACHE_BACKENDS_FAKE_COMPILER_H_

#include <memory>

#include "backends/fake/script.h"
#include "backends/sdk/driver.h"

namespace kcache::backend::fake {

inline constexpr char kArchitecture[] = "fake-1";
inline constexpr char kCompilerVersion[] = "fake compiler 1";

class FakeCompiler final : public Compiler {
 public:
  explicit FakeCompiler(std::shared_ptr<Script> script) : script_(std::move(script)) {}
  absl::StatusOr<v1::Artifact> Compile(const v1::CompileRequest& request) override;

 private:
  const std::shared_ptr<Script> script_;
};

}  // namespace kcache::backend::fake

#endif  // KCACHE_BACKENDS_FAKE_COMPILER_H_
