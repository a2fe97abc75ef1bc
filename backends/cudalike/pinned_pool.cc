#include "backends/cudalike/pinned_pool.h"

#include <utility>

#include "absl/status/statusor.h"

namespace kcache::backend::cudalike {

std::vector<char*> PinnedPool::Take(size_t bytes) {
  const size_t wanted = (bytes + kBlockBytes - 1) / kBlockBytes;
  if (wanted > kSlabs * kSlabBytes / kBlockBytes) return {};
  do {
    MutexLock lock(&mutex_);
    if (free_.size() >= wanted) {
      std::vector<char*> taken(free_.end() - static_cast<std::ptrdiff_t>(wanted), free_.end());
      free_.resize(free_.size() - wanted);
      return taken;
    }
  } while (Grow());
  return {};
}

void PinnedPool::GiveBack(const std::vector<char*>& blocks) {
  MutexLock lock(&mutex_);
  free_.insert(free_.end(), blocks.begin(), blocks.end());
}

bool PinnedPool::Grow() {
  {
    MutexLock lock(&mutex_);
    if (exhausted_ || reserved_slabs_ == kSlabs) return false;
    ++reserved_slabs_;
  }
  absl::StatusOr<HostMemory> slab = api_->AllocateHost(kSlabBytes);
  MutexLock lock(&mutex_);
  if (!slab.ok()) {
    --reserved_slabs_;
    exhausted_ = true;
    return false;
  }
  slabs_.push_back(*slab);
  for (size_t offset = 0; offset < kSlabBytes; offset += kBlockBytes) {
    free_.push_back(slab->host + offset);
  }
  return true;
}

absl::Status PinnedPool::Release() {
  std::vector<HostMemory> slabs;
  {
    MutexLock lock(&mutex_);
    slabs = std::exchange(slabs_, {});
    free_.clear();
    reserved_slabs_ = 0;
    exhausted_ = true;
  }
  absl::Status first;
  for (const HostMemory& slab : slabs) first.Update(api_->FreeHost(slab));
  return first;
}

}  // namespace kcache::backend::cudalike
