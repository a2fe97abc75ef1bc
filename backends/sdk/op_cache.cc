#include "backends/sdk/op_cache.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::backend {
namespace {

absl::Status TooManyKeys(size_t limit) {
  return MakeError(v1::LIMIT_EXCEEDED,
                   absl::StrCat("this host counts ", limit, " different keys; the limit "
                                "max_counted_keys is ", limit),
                   {{"limit", "max_counted_keys"}});
}

}  // namespace

absl::StatusOr<ScratchBlock> OpCache::Scratch(const std::string& tag, uint64_t bytes) {
  if (bytes == 0) {
    return MakeError(v1::BAD_REQUEST, absl::StrCat("scratch \"", tag, "\": 0 bytes"));
  }
  MutexLock growing(&growing_);
  ScratchBlock old = Current(tag);
  if (old.bytes >= bytes) return old;
  const auto failed = [&](const absl::Status& why) {
    return Annotate(why, absl::StrCat("while growing scratch \"", tag, "\" from ", old.bytes,
                                      " to ", bytes, " bytes"));
  };
  auto reserved = ledger_->Reserve(bytes);
  if (!reserved.ok()) return failed(reserved.status());
  auto memory = context_->Allocate(bytes, MemoryKind::kDevice);
  if (!memory.ok()) return failed(memory.status());
  ScratchBlock block{.memory = *memory, .bytes = bytes};
  block.ledger = ledger_->Add(absl::StrCat("scratch ", tag), *std::move(reserved), 0,
                              [this, m = *memory] { return context_->Free(m); });
  {
    MutexLock lock(&mutex_);
    scratch_[tag] = block;
  }
  if (old.memory != 0) retire_(old);
  return block;
}

ScratchBlock OpCache::Current(const std::string& tag) const {
  MutexLock lock(&mutex_);
  auto found = scratch_.find(tag);
  return found == scratch_.end() ? ScratchBlock{} : found->second;
}

uint64_t OpCache::scratch_bytes() const {
  MutexLock lock(&mutex_);
  uint64_t total = 0;
  for (const auto& [tag, block] : scratch_) total += block.bytes;
  return total;
}

absl::StatusOr<bool> OpCache::FirstN(const std::string& key, uint32_t n) {
  MutexLock lock(&mutex_);
  if (counts_.size() >= kMaxKeys && !counts_.contains(key)) return TooManyKeys(kMaxKeys);
  uint32_t& count = counts_[key];
  if (count >= n) return false;
  ++count;
  return true;
}

absl::StatusOr<bool> OpCache::FirstShape(const std::string& name, uint32_t m, uint32_t n,
                                         uint32_t k) {
  MutexLock lock(&mutex_);
  auto shape = std::make_tuple(name, m, n, k);
  if (shapes_.contains(shape)) return false;
  if (shapes_.size() >= kMaxKeys) return TooManyKeys(kMaxKeys);
  shapes_.insert(std::move(shape));
  return true;
}

}  // namespace kcache::backend
