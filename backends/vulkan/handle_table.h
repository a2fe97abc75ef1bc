// Numbers for objects: never 0, never reused.
//
// Threads: any. Ownership: the table shares each object with whoever has looked it up, so one that
// is taken out while a call uses it lives until that call is over.

#ifndef KCACHE_BACKENDS_VULKAN_HANDLE_TABLE_H_
#define KCACHE_BACKENDS_VULKAN_HANDLE_TABLE_H_

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "contract/mutex.h"

namespace kcache::backend::vulkan {

template <class T>
class HandleTable {
 public:
  uint64_t Add(std::shared_ptr<T> object) {
    MutexLock lock(&mutex_);
    objects_.emplace(++last_, std::move(object));
    return last_;
  }

  // Null when there is none.
  std::shared_ptr<T> Find(uint64_t handle) const {
    MutexLock lock(&mutex_);
    const auto found = objects_.find(handle);
    return found != objects_.end() ? found->second : nullptr;
  }

  std::shared_ptr<T> Take(uint64_t handle) {
    MutexLock lock(&mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::shared_ptr<T> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  std::vector<std::shared_ptr<T>> TakeAll() {
    MutexLock lock(&mutex_);
    std::vector<std::shared_ptr<T>> all;
    for (auto& [handle, object] : objects_) all.push_back(std::move(object));
    objects_.clear();
    return all;
  }

 private:
  mutable Mutex mutex_;
  uint64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<uint64_t, std::shared_ptr<T>> objects_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::backend::vulkan

#endif  // KCACHE_BACKENDS_VULKAN_HANDLE_TABLE_H_
