// The devices of the node: what probing found, which card is behind each, their global ids.
//
//            probe                    destroy               all contexts released
//   (none) ────────► UP ────────────────────────► DRAINING ─────────────────────► UP or DOWN
//                    ▲  ▲                                                            │
//                    │  └── device-up, or nobody asked for DOWN and what was STUCK ──┘
//                    │ probe again                                     has gone
//               UNAVAILABLE ◄── its backend or driver went away; while DRAINING: after that
//
// MoveTo is the one place that changes a device's state. A device fans out to its contexts, one for
// each trust domain that uses it; those have states of their own (context.h).
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_DEVICE_REGISTRY_H_
#define KCACHE_DAEMON_CORE_DEVICE_REGISTRY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/device_name.h"
#include "daemon/core/context.h"
#include "kcache/v1/backend.pb.h"
#include "kcache/v1/types.pb.h"

namespace kcache::core {

// What outlives a context in its (device, trust domain): generations never go back.
struct ContextHistory {
  uint64_t generation = 0;
  std::vector<absl::Duration> crashes;  // within the window
  bool on_hold = false;
  std::string hold_reason;
};

struct DeviceRecord {
  DeviceName name;  // the family's own name and index
  v1::DeviceInfo info;
  v1::DeviceState state = v1::DEVICE_UP;
  std::string reason;  // why not UP
  std::string away;    // why its driver does not have it any more: what it becomes once drained
  std::map<std::string, std::shared_ptr<Context>> contexts;  // by trust domain
  std::vector<std::shared_ptr<Context>> exiting;  // LOST; their hosts' processes are not gone yet
  std::map<std::string, ContextHistory> history;

  // The card behind it: its PCI address or uuid; empty when nothing tells.
  std::string physical() const;
  void MoveTo(v1::DeviceState next, std::string why);
  // UP, unless its driver has gone meanwhile.
  void ComeBack() { MoveTo(away.empty() ? v1::DEVICE_UP : v1::DEVICE_UNAVAILABLE, away); }
};

class DeviceRegistry {
 public:
  // Takes over what a probe found. Devices that are gone become UNAVAILABLE, new ones UP; `down` names
  // those that an operator keeps down. Returns the devices whose driver, compiler or identity changed
  // or that went away: their contexts must be destroyed.
  std::vector<DeviceRecord*> Apply(const std::vector<v1::ProbeReport>& reports,
                                   const std::map<std::string, std::string>& down);

  // UNKNOWN_DEVICE lists those that exist; BACKEND_UNAVAILABLE says why a family is away. A
  // framework's variant must be one that the device has.
  absl::StatusOr<DeviceRecord*> Find(const DeviceName& name);
  absl::StatusOr<DeviceRecord*> FindByGlobalId(uint64_t id);  // ID_RETIRED, UNKNOWN_DEVICE
  // What compiles for (framework, architecture) without a device.
  absl::StatusOr<v1::CompileCapability> FindCompiler(const v1::CompileTarget& target) const;

  // Every device of the same card, `device` included.
  std::vector<DeviceRecord*> Physical(const DeviceRecord& device);
  std::vector<DeviceRecord*> InScope(std::string_view family, std::optional<uint32_t> index);
  std::vector<DeviceRecord*> All();
  const std::map<std::string, std::string>& unavailable() const { return unavailable_; }

  // Retires every global id and gives out new ones.
  void RetireIds();

  // Acquires are accepted: UP. Else why not, typed.
  static absl::Status CheckUsable(const DeviceRecord& device);

 private:
  std::string Existing() const;

  std::map<DeviceName, std::unique_ptr<DeviceRecord>> devices_;
  std::map<std::string, std::string> unavailable_;  // family -> reason
  std::map<std::string, v1::ProbeReport> reports_;  // by family, without devices
  uint64_t next_id_ = 0;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_DEVICE_REGISTRY_H_
