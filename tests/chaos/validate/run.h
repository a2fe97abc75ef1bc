// Everything that was recorded in a run, and what validators look things up in.
//
// Daemons, hosts and clients are each one process's life; a run has many of each. What belongs together is
// found by the daemon's instance: context ids, sessions and revisions mean something within one only.
//
// Threads: constant once loaded.

#ifndef KCACHE_TESTS_CHAOS_VALIDATE_RUN_H_
#define KCACHE_TESTS_CHAOS_VALIDATE_RUN_H_

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/chaos/validate/record.h"

namespace kcache::chaos {

constexpr uint64_t kNever = std::numeric_limits<uint64_t>::max();
constexpr uint64_t kMillisecond = 1'000'000;

using ContextId = uint64_t;
using SessionId = uint64_t;
using SlotId = std::pair<uint64_t, uint64_t>;  // (slot, incarnation)

// ---- a daemon's life ----------------------------------------------------------------------------

struct SessionLife {
  uint64_t pid = 0;
  std::string domain;
  uint64_t opened = 0, ended = kNever, subscribed = kNever;
};

struct Lease {
  SessionId session = 0;
  ContextId context = 0;
  SlotId slot;
  uint64_t granted = 0, released = kNever;
};

// That a holder need not be waited for any longer.
struct Settled {
  uint64_t time = 0;
  std::string how;  // "acked", "gone", "grace-over"
  std::string operation;
  ContextId context = 0;
  SessionId session = 0;
};

struct Drain {
  std::string operation;
  ContextId context = 0;
  bool destroy = false;
  uint64_t grace_ms = 0;
  std::vector<SlotId> slots;  // of a clear
  uint64_t started = 0, done = kNever;
  bool lost = false;

  bool Covers(ContextId of, SlotId slot) const;
};

struct ContextLife {
  std::string device, domain;
  uint64_t made = 0, ended = kNever;
  uint64_t lost = kNever;
};

struct OperationLife {
  std::string id, kind, scope;
  uint64_t started = 0, running = kNever, ended = kNever;
};

struct Told {
  uint64_t time = 0;
  SessionId session = 0;
  std::string operation;
  ContextId context = 0;
  bool before = false;
  uint64_t kind = 0;  // v1::InvalidationKind
  uint64_t revision = 0;
};

struct Announced {
  uint64_t time = 0;
  SessionId session = 0;
  ContextId context = 0;
  std::map<uint64_t, uint64_t> positions;  // queue -> sequence
};

struct Daemon {
  const HistoryFile* file = nullptr;
  std::string instance;
  uint64_t first = 0, last = 0;
  std::map<SessionId, SessionLife> sessions;
  std::vector<Lease> leases;
  std::map<std::pair<ContextId, SessionId>, std::vector<Settled>> settled;
  std::vector<Drain> drains;
  std::map<ContextId, ContextLife> contexts;
  std::map<std::string, OperationLife> operations;
  std::vector<Told> told;
  std::map<std::pair<ContextId, SessionId>, std::vector<Announced>> announced;

  const Drain* FindDrain(const std::string& operation, ContextId context) const;
};

// ---- the other processes ------------------------------------------------------------------------

struct Host {
  const HistoryFile* file = nullptr;
  std::string instance;
  ContextId context = 0;
  const Daemon* daemon = nullptr;             // null: its daemon recorded nothing
  std::map<uint64_t, SlotId> slot_of_kernel;  // driver's handle -> slot
};

struct Client {
  const HistoryFile* file = nullptr;
  uint64_t pid = 0;
  std::string domain;
  bool done = false;  // ended as it was asked to
};

class Run {
 public:
  // Reads every *.history in the directory.
  static absl::StatusOr<std::unique_ptr<Run>> Load(const std::string& directory);
  // From files in memory: "daemon-…", "host-…", "client-…", "controller".
  static std::unique_ptr<Run> FromFiles(std::vector<HistoryFile> files);

  const std::vector<Daemon>& daemons() const { return daemons_; }
  const std::vector<Host>& hosts() const { return hosts_; }
  const std::vector<Client>& clients() const { return clients_; }
  const std::vector<Record>& controller() const { return controller_; }
  const Daemon* FindDaemon(const std::string& instance) const;
  // Of the controller's record `config`: milliseconds, 0 when it is not there.
  uint64_t Setting(const std::string& name) const;

 private:
  std::vector<HistoryFile> files_;
  std::vector<Daemon> daemons_;
  std::vector<Host> hosts_;
  std::vector<Client> clients_;
  std::vector<Record> controller_;
};

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_VALIDATE_RUN_H_
