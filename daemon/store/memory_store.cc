#include "daemon/store/memory_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::store {
namespace {

// What an entry takes besides its binary: log, reflection, other forms.
uint64_t SizeOf(const core::StoredArtifact& artifact) {
  return std::max<uint64_t>(artifact.bytes, artifact.artifact.ByteSizeLong());
}

absl::Status Full(const char* limit, uint64_t value, std::string_view what) {
  return MakeError(v1::LIMIT_EXCEEDED, std::string(what) + "; " + limit + " is " +
                                           std::to_string(value),
                   {{"limit", limit}, {"value", std::to_string(value)}});
}

}  // namespace

core::ArtifactPtr MemoryArtifactStore::Peek(const Digest& key) {
  const auto found = entries_.find(key);
  if (found == entries_.end()) return nullptr;
  by_age_.splice(by_age_.end(), by_age_, found->second.age);
  return found->second.artifact;
}

void MemoryArtifactStore::Get(const Digest& key, core::Function<void(core::ArtifactPtr)> done) {
  done(Peek(key));
}

absl::Status MemoryArtifactStore::Put(core::ArtifactPtr artifact) {
  const uint64_t size = SizeOf(*artifact);
  if (size > max_bytes_) {
    return Full("store.max_bytes", max_bytes_,
                "the artifact of " + std::to_string(size) + " bytes is larger than the store");
  }
  if (const auto old = entries_.find(artifact->key); old != entries_.end()) Erase(old);
  // Decided before anything is evicted, so that a Put that fails has cost nobody an entry.
  uint64_t bytes = bytes_;
  uint64_t count = entries_.size();
  std::vector<Digest> victims;
  for (auto age = by_age_.begin();
       age != by_age_.end() && (bytes + size > max_bytes_ || count + 1 > max_count_); ++age) {
    const Entry& entry = entries_.at(*age);
    if (entry.artifact.use_count() > 1) continue;
    bytes -= entry.bytes;
    --count;
    victims.push_back(*age);
  }
  if (bytes + size > max_bytes_) {
    return Full("store.max_bytes", max_bytes_,
                std::to_string(bytes) + " bytes of artifacts are in use");
  }
  if (count + 1 > max_count_) {
    return Full("store.max_count", max_count_, std::to_string(count) + " artifacts are in use");
  }
  for (const Digest& victim : victims) Erase(entries_.find(victim));
  const Digest key = artifact->key;
  Entry entry{.artifact = std::move(artifact), .bytes = size, .age = {}};
  entry.age = by_age_.insert(by_age_.end(), key);
  bytes_ += size;
  entries_.emplace(key, std::move(entry));
  return absl::OkStatus();
}

void MemoryArtifactStore::Erase(std::map<Digest, Entry>::iterator entry) {
  bytes_ -= entry->second.bytes;
  by_age_.erase(entry->second.age);
  entries_.erase(entry);
}

void MemoryArtifactStore::Remove(const Digest& key) {
  if (const auto found = entries_.find(key); found != entries_.end()) Erase(found);
}

void MemoryArtifactStore::Clear() {
  entries_.clear();
  by_age_.clear();
  bytes_ = 0;
}

std::vector<core::ArtifactPtr> MemoryArtifactStore::List() {
  std::vector<core::ArtifactPtr> artifacts;
  artifacts.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) artifacts.push_back(entry.artifact);
  return artifacts;
}

}  // namespace kcache::store
