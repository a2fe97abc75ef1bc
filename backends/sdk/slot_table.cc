#include "backends/sdk/slot_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::backend {

v1::LoadReply SlotTable::Load(const v1::LoadRequest& request) {
  v1::LoadReply reply;
  LoadStatistics statistics;
  if (!request.has_artifact()) {
    MutexLock lock(&mutex_);
    if (!modules_.contains(request.artifact_key())) {
      reply.set_need_artifact(true);
      return reply;
    }
  }
  auto module = EnsureModule(request, &statistics);
  for (const v1::LoadItem& item : request.items()) {
    if (module.ok()) {
      *reply.add_results() = LoadOne(request.artifact_key(), *module, item, &statistics);
    } else {
      v1::LoadResult* result = reply.add_results();
      result->set_slot(item.slot());
      *result->mutable_error() = ToProto(module.status());
    }
  }
  if (module.ok()) DropModuleIfUnused(request.artifact_key()).IgnoreError();
  reply.set_jit_us(statistics.jit_microseconds);
  if (statistics.jit_microseconds > kSlowLoadMicroseconds) {
    MutexLock lock(&mutex_);
    ++slow_loads_;
  }
  return reply;
}

absl::StatusOr<ModuleHandle> SlotTable::EnsureModule(const v1::LoadRequest& request,
                                                     LoadStatistics* statistics) {
  {
    MutexLock lock(&mutex_);
    auto found = modules_.find(request.artifact_key());
    if (found != modules_.end()) return found->second.handle;
  }
  auto handle = context_->LoadModule(request.artifact(), statistics);
  if (!handle.ok()) return handle.status();
  Module module;
  module.handle = *handle;
  module.ledger = ledger_->Add(absl::StrCat("module ", ToHex(request.artifact_key()).substr(0, 12)),
                               0, [this, h = *handle] { return context_->UnloadModule(h); });
  MutexLock lock(&mutex_);
  modules_[request.artifact_key()] = module;
  return *handle;
}

v1::LoadResult SlotTable::LoadOne(const std::string& module_key, ModuleHandle module,
                                  const v1::LoadItem& item, LoadStatistics* statistics) {
  v1::LoadResult result;
  result.set_slot(item.slot());
  {
    MutexLock lock(&mutex_);
    if (slots_.contains(item.slot())) {
      *result.mutable_error() = ToProto(MakeError(
          v1::INTERNAL, absl::StrCat("slot ", item.slot(), " is loaded already")));
      return result;
    }
  }
  auto slot = std::make_shared<Slot>();
  slot->number = item.slot();
  slot->incarnation = item.incarnation();
  slot->module_key = module_key;
  slot->info = item.kernel();
  auto kernel = context_->ResolveKernel(module, item.specialization(), &slot->info, statistics);
  if (!kernel.ok()) {
    *result.mutable_error() = ToProto(
        Annotate(kernel.status(), absl::StrCat("while resolving kernel ", item.kernel().entry())));
    return result;
  }
  slot->kernel = *kernel;
  if (history_ != nullptr) {
    history_->Record("slot", {{"slot", slot->number},
                              {"incarnation", slot->incarnation},
                              {"kernel", slot->kernel}});
  }
  slot->ledger = ledger_->Add(absl::StrCat("kernel ", item.kernel().entry()), 0,
                              [this, k = *kernel] { return context_->ReleaseKernel(k); });
  *result.mutable_kernel() = slot->info;
  MutexLock lock(&mutex_);
  ++modules_[module_key].slots;
  slots_[item.slot()] = std::move(slot);
  return result;
}

std::shared_ptr<Slot> SlotTable::Find(uint32_t slot, uint32_t incarnation) const {
  MutexLock lock(&mutex_);
  auto found = slots_.find(slot);
  if (found == slots_.end() || found->second->incarnation != incarnation) return nullptr;
  return found->second;
}

std::vector<std::shared_ptr<Slot>> SlotTable::Loaded() const {
  MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<Slot>> loaded;
  for (const auto& [number, slot] : slots_) loaded.push_back(slot);
  return loaded;
}

absl::Status SlotTable::Unload(const std::shared_ptr<Slot>& slot) {
  {
    MutexLock lock(&mutex_);
    auto found = slots_.find(slot->number);
    if (found == slots_.end() || found->second != slot) return absl::OkStatus();
    slots_.erase(found);
    --modules_[slot->module_key].slots;
  }
  absl::Status released = ledger_->ReleaseOne(slot->ledger);
  absl::Status module = DropModuleIfUnused(slot->module_key);
  return released.ok() ? module : released;
}

absl::Status SlotTable::DropModuleIfUnused(const std::string& key) {
  LedgerId ledger = 0;
  {
    MutexLock lock(&mutex_);
    auto found = modules_.find(key);
    if (found == modules_.end() || found->second.slots != 0) return absl::OkStatus();
    ledger = found->second.ledger;
    modules_.erase(found);
  }
  return ledger_->ReleaseOne(ledger);
}

uint64_t SlotTable::handles() const {
  MutexLock lock(&mutex_);
  return slots_.size();
}

uint64_t SlotTable::modules() const {
  MutexLock lock(&mutex_);
  return modules_.size();
}

uint64_t SlotTable::slow_loads() const {
  MutexLock lock(&mutex_);
  return slow_loads_;
}

}  // namespace kcache::backend
