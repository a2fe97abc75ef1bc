// All contexts: made on demand, found by id, retired when idle, put on hold when they crash too often;
// LOST ones kept aside until their processes are gone.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_CONTEXT_TABLE_H_
#define KCACHE_DAEMON_CORE_CONTEXT_TABLE_H_

#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "daemon/core/context.h"
#include "daemon/core/core.h"

namespace kcache::core {

class ContextTable {
 public:
  ContextTable(Core* core, ContextOwner* owner) : core_(core), owner_(owner) {}

  // The domain's context on the device, CREATING or ALIVE, made if need be. DEVICE_DRAINING at once
  // while it or its device drains, DEVICE_DOWN, NOT_READY, CONTEXT_ON_HOLD.
  absl::StatusOr<std::shared_ptr<Context>> Ensure(DeviceRecord* device, const TrustDomain& domain);
  Context* Find(uint64_t id);
  // LOST, and its host's process has still to end: out of the way of the next Ensure, and nothing
  // finds it any more. It counts towards the hold now.
  void MoveToExiting(Context* context, std::string_view why);
  // It has ended. `crashed` counts towards the hold.
  void Remove(Context* context, bool crashed, std::string_view why);
  // A session that was a trust domain by itself has ended: nobody will ask for its contexts again.
  void ForgetDomain(const std::string& domain);
  // Clears holds and crash counts of the device. Returns how many were on hold.
  int ClearHolds(DeviceRecord* device);

  // Every context that has a process, the exiting ones, too.
  template <class F>
  void ForEach(F&& each) {
    for (auto& [id, context] : contexts_) each(*context);
    for (DeviceRecord* device : core_->devices.All()) {
      for (auto& context : device->exiting) each(*context);
    }
  }
  size_t size() {
    size_t count = 0;
    ForEach([&count](const Context&) { ++count; });
    return count;
  }
  // Leases in all contexts of a trust domain.
  uint64_t LeasesOf(const std::string& domain);

 private:
  // Out of the way of its (device, trust domain). Whoever calls keeps a reference.
  void Unlink(const Context& context);
  void NoteCrash(const Context& context, std::string_view why);
  void ForgetDomainIfOver(const std::string& domain);

  Core* const core_;
  ContextOwner* const owner_;
  absl::flat_hash_map<uint64_t, std::shared_ptr<Context>> contexts_;
  uint64_t next_id_ = 0;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_CONTEXT_TABLE_H_
