// Compiling: at most one successful compile a key, never two at a time (G4), bounded and fair, and a
// key that kills compilers is refused for a while (G9).
//
//   asked ──► QUEUED ──(a worker is free)──► RUNNING ──► done: every waiter gets the artifact
//                ▲                              │  └──► compiler's error: every waiter gets it
//                └──(first abnormal death)──────┘  └──► second death: every waiter gets the reason
//
// Interactive builds go before prewarm ones; among each, trust domains take turns. A waiter that goes
// away disturbs nobody; a build that nobody waits for and that is not running yet is dropped.
//
// An artifact belongs to the artifact epoch in which its build started: what a clear of the
// artifacts overtakes still goes to its waiters but is not stored, and who asks after the clear gets
// a build of his own, after the overtaken one has ended.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_BUILD_QUEUE_H_
#define KCACHE_DAEMON_CORE_BUILD_QUEUE_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/kernel_key.h"
#include "daemon/core/compile_times.h"
#include "daemon/core/dependencies.h"
#include "daemon/core/limits.h"
#include "daemon/core/source_cache.h"
#include "kcache/v1/admin.pb.h"
#include "kcache/v1/session.pb.h"

namespace kcache::core {

struct BuildSpec {
  Digest key;
  std::string family;
  std::string framework;
  std::string architecture;
  std::string compiler_version;
  uint32_t device_index = 0;
  ProgramPtr program;
};

struct BuildResult {
  ArtifactPtr artifact;
  bool joined = false;      // somebody else's request had started it
  uint64_t compile_ms = 0;
};

struct BuildCounters {
  uint64_t compiles = 0;   // successful
  uint64_t failures = 0;   // the compiler said no
  uint64_t crashes = 0;    // abnormal ends
  uint64_t attempts = 0;
};

class BuildQueue {
 public:
  using Done = Function<void(absl::StatusOr<BuildResult>)>;
  using WaiterId = uint64_t;

  BuildQueue(const Limits* limits, const Dependencies* dependencies)
      : limits_(limits), deps_(dependencies), times_(dependencies->clock) {}

  // Joins the key's build or starts one. `done` runs once, unless abandoned, never inside the call
  // that added it. Refused or over a limit: the error comes back at once.
  absl::StatusOr<WaiterId> Build(BuildSpec spec, v1::Priority priority, const std::string& domain,
                                 Function<void(bool running)> progress, Done done);
  void Abandon(WaiterId waiter);

  // The artifacts have been cleared: builds under way are of an earlier epoch.
  void BumpEpoch() { ++epoch_; }

  // Devices and compilers have been probed anew, so keys may have changed: builds that have not begun are
  // given up, CLEARED to who waits for them, and none that runs is tried again.
  void OnProbed();

  v1::RefusalList Refusals() const;
  uint64_t ClearRefusals(const std::string& key);  // empty: all

  const BuildCounters& counters() const { return counters_; }
  // What a trust domain uses of its quotas here.
  struct DomainUse {
    uint32_t queued = 0;
    absl::Duration compile_time;  // in CompileTimes::kWindow, running compiles included
    uint64_t artifact_bytes = 0;
  };
  DomainUse UseOf(const std::string& domain);

  uint64_t running() const { return running_.size(); }
  uint64_t queued() const { return queued_; }

 private:
  struct Waiter {
    WaiterId id = 0;
    std::string domain;
    bool joined = false;
    Function<void(bool)> progress;
    Done done;
  };
  struct Flight {
    BuildSpec spec;
    v1::Priority priority = v1::PRIORITY_INTERACTIVE;
    std::string domain;  // in whose line it stands, and whose compile time it costs
    uint64_t epoch = 0;
    bool running = false;
    bool outdated = false;  // devices were probed anew while it ran
    int deaths = 0;
    int uncounted = 0;
    JobId job = 0;
    absl::Duration started;
    std::vector<Waiter> waiters;
    std::unique_ptr<Flight> next;  // asked for after a clear of the artifacts
  };
  struct Refusal {
    int crashes = 0;
    absl::Duration until;  // when `crashes` has reached the limit
    std::string reason;
  };
  // Domains take turns: each has its own line.
  struct Line {
    std::map<std::string, std::deque<Digest>> by_domain;
    std::string last;
  };

  void Enqueue(const Digest& key, const Flight& flight, bool front);
  bool Dequeue(Line* line, Digest* key);
  void Pump();
  void StartJob(const Digest& key, Flight* flight);
  void OnOutcome(const Digest& key, CompileOutcome outcome);
  void Finish(const Digest& key, absl::StatusOr<BuildResult> result);
  void Answer(std::vector<Waiter> waiters, const absl::StatusOr<BuildResult>& result);
  absl::Status CountDeath(const Digest& key, Flight* flight, const CompileOutcome& outcome);
  absl::Status CheckRefused(const Digest& key);
  // LIMIT_EXCEEDED when the domain may not have another compile now.
  absl::Status CheckQuota(const std::string& domain);
  // Finds a waiter whose domain may pay for the compile; why not, if none can.
  absl::Status FindPayer(Flight* flight);
  uint64_t ArtifactBytes(const std::string& domain);

  const Limits* const limits_;
  const Dependencies* const deps_;
  absl::flat_hash_map<Digest, std::unique_ptr<Flight>> flights_;
  absl::flat_hash_map<WaiterId, Digest> waiters_;
  absl::flat_hash_map<Digest, Refusal> refusals_;
  absl::flat_hash_map<std::string, uint32_t> queued_by_domain_;
  Line lines_[2];  // interactive, prewarm
  WaiterId next_waiter_ = 0;
  uint64_t epoch_ = 1;
  absl::flat_hash_map<Digest, const Flight*> running_;
  uint64_t queued_ = 0;
  CompileTimes times_;
  // What the store holds of each domain, as of a state of the store.
  absl::flat_hash_map<std::string, uint64_t> artifact_bytes_;
  std::pair<uint64_t, uint64_t> artifact_bytes_of_{~0ull, ~0ull};  // its count and bytes then
  BuildCounters counters_;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_BUILD_QUEUE_H_
