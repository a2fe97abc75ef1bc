// The kernels a host has loaded, by slot.
//
//   EMPTY ──Load──► LOADED ──Fence──► FENCED ──Unload, after what is in flight──► EMPTY
//                                                            (the next incarnation)
//
// A launch is admitted only while its slot is LOADED in the incarnation that its lease names. A module
// stays loaded as long as a slot of it does, and is unloaded once, after the last one.
//
// Threads: any. Driver calls run without the lock; the daemon serializes loads of one artifact.

#ifndef KCACHE_BACKENDS_SDK_SLOT_TABLE_H_
#define KCACHE_BACKENDS_SDK_SLOT_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "backends/sdk/admission_gate.h"
#include "backends/sdk/driver.h"
#include "backends/sdk/ledger.h"
#include "contract/history.h"
#include "contract/mutex.h"
#include "kcache/v1/backend.pb.h"

namespace kcache::backend {

struct Slot {
  uint32_t number = 0;
  uint32_t incarnation = 0;
  KernelHandle kernel = 0;
  v1::KernelInfo info;
  std::string module_key;
  LedgerId ledger = 0;
  AdmissionGate gate;  // closed: fenced
};

class SlotTable {
 public:
  SlotTable(Context* context, Ledger* ledger, const History* history = nullptr)
      : context_(context), ledger_(ledger), history_(history) {}

  v1::LoadReply Load(const v1::LoadRequest& request);
  // The slot if it is loaded in this incarnation; null otherwise.
  std::shared_ptr<Slot> Find(uint32_t slot, uint32_t incarnation) const;
  std::vector<std::shared_ptr<Slot>> Loaded() const;

  // Gives back one fenced slot that nothing in flight uses. Its module goes with its last slot.
  absl::Status Unload(const std::shared_ptr<Slot>& slot);

  uint64_t handles() const;
  uint64_t modules() const;
  uint64_t slow_loads() const;

 private:
  struct Module {
    ModuleHandle handle = 0;
    LedgerId ledger = 0;
    uint32_t slots = 0;
  };
  // A load in which the driver compiled for longer than this counts as JIT in the host.
  static constexpr uint64_t kSlowLoadMicroseconds = 2000;

  absl::StatusOr<ModuleHandle> EnsureModule(const v1::LoadRequest& request,
                                            LoadStatistics* statistics);
  v1::LoadResult LoadOne(const std::string& module_key, ModuleHandle module,
                         const v1::LoadItem& item, LoadStatistics* statistics);
  absl::Status DropModuleIfUnused(const std::string& key);

  Context* const context_;
  Ledger* const ledger_;
  const History* const history_;
  mutable Mutex mutex_;
  absl::flat_hash_map<uint32_t, std::shared_ptr<Slot>> slots_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, Module> modules_ ABSL_GUARDED_BY(mutex_);
  uint64_t slow_loads_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_SLOT_TABLE_H_
