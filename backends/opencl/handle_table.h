// Objects by number. Numbers come from one counter of the context, are never 0 and never come
// again.
//
// Threads: any. Ownership: shared, so that an object found stays alive while it is used although
// another thread erases it.

#ifndef KCACHE_BACKENDS_OPENCL_HANDLE_TABLE_H_
#define KCACHE_BACKENDS_OPENCL_HANDLE_TABLE_H_

#include <cstdint>
#include <memory>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/error_reason.h"

namespace kcache::backend::opencl {

template <typename T>
class HandleTable {
 public:
  // `what` names the objects in messages.
  explicit HandleTable(std::string what) : what_(std::move(what)) {}

  void Insert(uint64_t handle, std::shared_ptr<T> object) {
    std::unique_lock lock(mutex_);
    objects_.emplace(handle, std::move(object));
  }

  // Null when there is none.
  std::shared_ptr<T> Find(uint64_t handle) const {
    std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  absl::StatusOr<std::shared_ptr<T>> Get(uint64_t handle) const {
    std::shared_ptr<T> object = Find(handle);
    if (object == nullptr) return Unknown(handle);
    return object;
  }

  absl::StatusOr<std::shared_ptr<T>> Take(uint64_t handle) {
    std::unique_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return Unknown(handle);
    std::shared_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  std::vector<std::shared_ptr<T>> TakeAll() {
    std::unique_lock lock(mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (auto& [handle, object] : objects_) all.push_back(std::move(object));
    objects_.clear();
    return all;
  }

 private:
  absl::Status Unknown(uint64_t handle) const {
    return MakeError(v1::INTERNAL, "no " + what_ + " has the handle " + std::to_string(handle));
  }

  const std::string what_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<uint64_t, std::shared_ptr<T>> objects_;
};

}  // namespace kcache::backend::opencl

#endif  // KCACHE_BACKENDS_OPENCL_HANDLE_TABLE_H_
