#include "client/src/memo.h"

#include <optional>

#include "absl/container/flat_hash_set.h"

namespace kcache::internal {

void Memo::Trim(const MemoKey& installed) {
  if (capacity_ == 0) {
    cache_.Erase(installed).IgnoreError();
    return;
  }
  {
    MutexLock lock(&mutex_);
    order_.push_back(installed);
  }
  // What is in use goes to the young end; nothing is looked at twice.
  size_t tries = 0;
  while (cache_.size() > capacity_) {
    MemoKey oldest;
    {
      MutexLock lock(&mutex_);
      if (tries++ > order_.size() || order_.empty()) return;
      oldest = std::move(order_.front());
      order_.pop_front();
    }
    std::optional<Value> value = cache_.Find(oldest);
    if (!value.has_value()) continue;
    // The cache's share and ours.
    if (value->use_count() > 2) {
      MutexLock lock(&mutex_);
      order_.push_back(std::move(oldest));
      continue;
    }
    cache_.Erase(oldest).IgnoreError();
  }
  // Keys of what invalidations have dropped would pile up.
  std::deque<MemoKey> keys;
  {
    MutexLock lock(&mutex_);
    if (order_.size() <= 2 * capacity_ + 16) return;
    keys.swap(order_);
  }
  absl::flat_hash_set<MemoKey> kept;
  std::deque<MemoKey> live;
  for (MemoKey& key : keys) {
    if (cache_.Find(key).has_value() && kept.insert(key).second) live.push_back(std::move(key));
  }
  MutexLock lock(&mutex_);
  for (MemoKey& key : order_) live.push_back(std::move(key));
  order_.swap(live);
}

}  // namespace kcache::internal
