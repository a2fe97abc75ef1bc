// Names one logical operation (a clear, a destroy, a reset) through every layer and process it
// reaches.
//
// Passed explicitly, never a thread-local: two operations that share a thread stay two, and one
// operation that spreads over threads or comes back over a socket stays one.
//
// Threads: a value.

#ifndef KCACHE_CONTRACT_OPERATION_SCOPE_H_
#define KCACHE_CONTRACT_OPERATION_SCOPE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace kcache {

class OperationScope {
 public:
  static constexpr size_t kBytes = 16;

  // A scope for an operation that starts here: random, from the operating system.
  static OperationScope New();

  // The scope that arrived as bytes: v1.Invalidate.operation_id and its like. BAD_REQUEST unless it
  // has kBytes and is not all zero.
  static absl::StatusOr<OperationScope> FromBytes(std::string_view bytes);

  const std::string& id() const { return id_; }
  std::string hex() const;

  friend bool operator==(const OperationScope&, const OperationScope&) = default;

 private:
  explicit OperationScope(std::string id) : id_(std::move(id)) {}
  std::string id_;
};

}  // namespace kcache

#endif  // KCACHE_CONTRACT_OPERATION_SCOPE_H_
