#include "daemon/core/handle_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::core {
namespace {

absl::Status ClearedDuringBuild() {
  return MakeError(v1::CLEARED, "the cache was cleared while this kernel was being loaded");
}

}  // namespace

HandleCache::~HandleCache() = default;

Handle* HandleCache::Find(const Digest& key) {
  auto found = by_key_.find(key);
  return found == by_key_.end() ? nullptr : found->second;
}

Handle* HandleCache::AtSlot(uint32_t slot) {
  return slot < slots_.size() ? slots_[slot].handle.get() : nullptr;
}

Handle* HandleCache::Begin(const Digest& key, const ArtifactPtr& artifact, v1::KernelInfo kernel,
                           v1::Specialization specialization) {
  uint32_t number;
  if (free_.empty()) {
    number = static_cast<uint32_t>(slots_.size());
    slots_.emplace_back();
  } else {
    number = free_.back();
    free_.pop_back();
  }
  Slot& slot = slots_[number];
  slot.handle = std::make_unique<Handle>();
  Handle* handle = slot.handle.get();
  handle->slot = number;
  handle->incarnation = ++slot.incarnation;
  handle->key = key;
  handle->artifact = artifact->key;
  handle->program = artifact->program;
  handle->architecture = artifact->artifact.architecture();
  handle->binary = artifact;
  handle->kernel = std::move(kernel);
  handle->specialization = std::move(specialization);
  by_key_[key] = handle;
  ++live_;
  Module& module = modules_[artifact->key];
  ++module.handles;
  module.waiting.push_back(handle);
  if (module.waiting.size() == 1 && !module.under_way) to_load_.push_back(artifact->key);
  return handle;
}

bool HandleCache::TakeLoad(v1::LoadRequest* request) {
  while (!to_load_.empty()) {
    const Digest key = to_load_.back();
    to_load_.pop_back();
    auto found = modules_.find(key);
    if (found == modules_.end() || found->second.under_way || found->second.waiting.empty()) continue;
    Module& module = found->second;
    module.under_way = true;
    request->set_artifact_key(key.str());
    if (!module.loaded) *request->mutable_artifact() = module.waiting.front()->binary->artifact;
    for (Handle* handle : module.waiting) {
      v1::LoadItem* item = request->add_items();
      item->set_slot(handle->slot);
      item->set_incarnation(handle->incarnation);
      *item->mutable_kernel() = handle->kernel;
      *item->mutable_specialization() = handle->specialization;
    }
    module.waiting.clear();
    ++counters_->loads;
    return true;
  }
  return false;
}

HandleCache::Loaded HandleCache::OnLoaded(const v1::LoadRequest& request,
                                          const absl::StatusOr<v1::LoadReply>& reply) {
  Loaded loaded;
  const Digest key = *Digest::FromBytes(request.artifact_key());
  Module& module = modules_[key];
  module.under_way = false;
  std::vector<Handle*> handles;
  for (const v1::LoadItem& item : request.items()) {
    Handle* handle = AtSlot(item.slot());
    if (handle != nullptr && handle->incarnation == item.incarnation()) handles.push_back(handle);
  }
  if (reply.ok() && reply->need_artifact()) {
    // It was unloaded there with its last handle: once more, with the binary.
    module.loaded = false;
    module.waiting.insert(module.waiting.begin(), handles.begin(), handles.end());
    to_load_.push_back(key);
    return loaded;
  }
  if (reply.ok()) {
    module.loaded = true;
    if (reply->jit_us() > kJitThresholdMicroseconds) ++counters_->jit_in_host;
  }
  if (!module.waiting.empty()) to_load_.push_back(key);

  absl::flat_hash_map<uint32_t, const v1::LoadResult*> results;
  if (reply.ok()) {
    for (const v1::LoadResult& result : reply->results()) results[result.slot()] = &result;
  }
  for (Handle* handle : handles) {
    auto result = results.find(handle->slot);
    absl::Status status;
    if (!reply.ok()) {
      status = reply.status();
    } else if (result == results.end()) {
      status = MakeError(v1::INTERNAL,
                         absl::StrCat("the host said nothing of slot ", handle->slot));
    } else if (result->second->has_error()) {
      status = FromProto(result->second->error());
    }
    std::vector<HandleWaiter> waiters = std::move(handle->waiters);
    handle->waiters.clear();
    handle->binary = nullptr;
    if (!status.ok()) {
      // A failed build caches nothing.
      for (HandleWaiter& waiter : waiters) {
        loaded.calls.push_back(HandleCall{std::move(waiter), status, nullptr});
      }
      Release(handle);
      continue;
    }
    ++counters_->built;
    handle->kernel = result->second->kernel();
    if (handle->state == HandleState::kDoomed) {
      for (HandleWaiter& waiter : waiters) {
        loaded.calls.push_back(HandleCall{std::move(waiter), ClearedDuringBuild(), nullptr});
      }
      loaded.stale.push_back(handle);
      continue;
    }
    handle->state = HandleState::kReady;
    ++ready_;
    for (HandleWaiter& waiter : waiters) {
      loaded.calls.push_back(HandleCall{std::move(waiter), absl::OkStatus(), handle});
    }
  }
  return loaded;
}

std::vector<Handle*> HandleCache::DoomAll() {
  std::vector<Handle*> doomed;
  for (auto& [key, handle] : by_key_) {
    if (handle->state == HandleState::kReady) {
      doomed.push_back(handle);
      --ready_;
    }
    handle->state = HandleState::kDoomed;
  }
  by_key_.clear();
  std::sort(doomed.begin(), doomed.end(), [](const Handle* a, const Handle* b) {
    return a->slot != b->slot ? a->slot > b->slot : a->incarnation > b->incarnation;
  });
  return doomed;
}

Handle* HandleCache::DoomLeastRecentlyUsed() {
  Handle* oldest = nullptr;
  for (auto& [key, handle] : by_key_) {
    if (handle->state != HandleState::kReady || !handle->holders.empty()) continue;
    if (oldest == nullptr || handle->last_used < oldest->last_used) oldest = handle;
  }
  if (oldest == nullptr) return nullptr;
  by_key_.erase(oldest->key);
  oldest->state = HandleState::kDoomed;
  --ready_;
  return oldest;
}

void HandleCache::Forget(Handle* handle) {
  ++counters_->destroyed;
  Release(handle);
}

void HandleCache::Release(Handle* handle) {
  auto by_key = by_key_.find(handle->key);
  if (by_key != by_key_.end() && by_key->second == handle) by_key_.erase(by_key);
  auto module = modules_.find(handle->artifact);
  if (module != modules_.end() && --module->second.handles == 0) {
    // The host unloads a module with its last handle. Under way: the answer still needs the entry.
    if (module->second.under_way) {
      module->second.loaded = false;
    } else {
      modules_.erase(module);
    }
  }
  --live_;
  free_.push_back(handle->slot);
  slots_[handle->slot].handle = nullptr;
}

std::vector<HandleCall> HandleCache::Abandon(
    absl::Status why) {
  std::vector<HandleCall> calls;
  for (Slot& slot : slots_) {
    if (slot.handle == nullptr) continue;
    for (HandleWaiter& waiter : slot.handle->waiters) {
      calls.push_back(HandleCall{std::move(waiter), why, nullptr});
    }
    // What was built goes with the host's process.
    if (slot.handle->binary == nullptr) ++counters_->destroyed;
    slot.handle = nullptr;
  }
  by_key_.clear();
  modules_.clear();
  to_load_.clear();
  free_.clear();
  slots_.clear();
  ready_ = live_ = 0;
  return calls;
}

}  // namespace kcache::core
