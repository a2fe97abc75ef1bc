// Numbers for driver objects: never 0, never reused, looked up from any thread.
//
// Threads: any. Ownership: the map owns what it holds until it is taken out; a lookup copies, so T
// is a pointer or a small value, and the caller guarantees that nobody takes it out meanwhile.
#ifndef KCACHE_BACKENDS_CUDALIKE_HANDLE_MAP_H_
#define KCACHE_BACKENDS_CUDALIKE_HANDLE_MAP_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "contract/mutex.h"

namespace kcache::backend::cudalike {

template <typename T>
class HandleMap {
 public:
  uint64_t Insert(T value) {
    MutexLock lock(&mutex_);
    values_.emplace(++last_, std::move(value));
    return last_;
  }

  std::optional<T> Find(uint64_t handle) const {
    MutexLock lock(&mutex_);
    const auto found = values_.find(handle);
    if (found == values_.end()) return std::nullopt;
    return found->second;
  }

  std::optional<T> Take(uint64_t handle) {
    MutexLock lock(&mutex_);
    const auto found = values_.find(handle);
    if (found == values_.end()) return std::nullopt;
    std::optional<T> value = std::move(found->second);
    values_.erase(found);
    return value;
  }

  // Everything that is left, newest first.
  std::vector<T> TakeAll() {
    std::vector<std::pair<uint64_t, T>> left;
    {
      MutexLock lock(&mutex_);
      left.assign(values_.begin(), values_.end());
      values_.clear();
    }
    std::sort(left.begin(), left.end(),
              [](const auto& a, const auto& b) { return a.first > b.first; });
    std::vector<T> values;
    values.reserve(left.size());
    for (auto& [handle, value] : left) values.push_back(std::move(value));
    return values;
  }

  size_t size() const {
    MutexLock lock(&mutex_);
    return values_.size();
  }

 private:
  mutable Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<uint64_t, T> values_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_HANDLE_MAP_H_
