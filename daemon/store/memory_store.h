// The artifact store in memory: least recently used goes first, bounded in bytes and count. What a
// caller holds through an ArtifactPtr (a pin, a handle being loaded) is passed over: its bytes would
// not be given back anyway, and its next asker would compile it again.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_STORE_MEMORY_STORE_H_
#define KCACHE_DAEMON_STORE_MEMORY_STORE_H_

#include <list>
#include <map>
#include <vector>

#include "daemon/core/dependencies.h"

namespace kcache::store {

class MemoryArtifactStore : public core::ArtifactStore {
 public:
  MemoryArtifactStore(uint64_t max_bytes, uint64_t max_count)
      : max_bytes_(max_bytes), max_count_(max_count) {}

  void Get(const Digest& key, core::Function<void(core::ArtifactPtr)> done) override;
  core::ArtifactPtr Peek(const Digest& key) override;
  // RESOURCE_EXHAUSTED, naming the limit: larger than the store, or everything in it is held.
  absl::Status Put(core::ArtifactPtr artifact) override;
  void Remove(const Digest& key) override;
  void Clear() override;
  std::vector<core::ArtifactPtr> List() override;
  uint64_t bytes() const override { return bytes_; }
  uint64_t count() const override { return entries_.size(); }

 private:
  struct Entry {
    core::ArtifactPtr artifact;
    uint64_t bytes = 0;
    std::list<Digest>::iterator age;
  };

  void Erase(std::map<Digest, Entry>::iterator entry);

  const uint64_t max_bytes_;
  const uint64_t max_count_;
  uint64_t bytes_ = 0;
  std::list<Digest> by_age_;  // oldest first
  std::map<Digest, Entry> entries_;
};

}  // namespace kcache::store

#endif  // KCACHE_DAEMON_STORE_MEMORY_STORE_H_
