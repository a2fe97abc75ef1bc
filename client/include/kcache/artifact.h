// A pinned artifact: the device binary of a program, for an application that loads it into a
// context of its own.
//
// Threads: any thread. Ownership: an Artifact is a copyable share of one pin. The bytes stay valid
// as long as a copy exists, whatever happens to the daemon; nothing is ever released under an
// application that uses them. OnRevoked says when they should not be used for anything new.

#ifndef KCACHE_ARTIFACT_H_
#define KCACHE_ARTIFACT_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kcache/kernel.h"
#include "kcache/listener.h"

namespace kcache {

namespace internal {
class ArtifactState;
}

// What to compile for when no device is meant: ("CUDA", "sm_90a"). Works without the device
// present.
struct CompileTarget {
  std::string framework;
  std::string architecture;
};

class Artifact {
 public:
  Artifact() = default;

  bool empty() const { return state_ == nullptr; }
  std::span<const std::byte> Bytes() const;
  const std::string& format() const;  // "cubin" "ptx" "code-object" "spirv" "pocl-binary" …
  const std::string& architecture() const;
  const std::string& build_log() const;
  const std::vector<KernelInfo>& kernels() const;
  std::string key() const;  // 64 hexadecimal digits
  Origin origin() const;

  // Runs `listener`, as in listener.h, when artifacts are cleared or the device it was acquired for
  // is destroyed. Unload when your own uses are over.
  Registration OnRevoked(std::function<absl::Status(const InvalidationEvent&)> listener) const;
  bool revoked() const;

 private:
  friend class Client;
  explicit Artifact(std::shared_ptr<internal::ArtifactState> state) : state_(std::move(state)) {}

  std::shared_ptr<internal::ArtifactState> state_;
};

}  // namespace kcache

#endif  // KCACHE_ARTIFACT_H_
