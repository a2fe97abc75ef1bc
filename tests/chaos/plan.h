// The script of a run: what is done to the system, and when. It follows from the seed alone.
//
// Threads: values.

#ifndef KCACHE_TESTS_CHAOS_PLAN_H_
#define KCACHE_TESTS_CHAOS_PLAN_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kcache::chaos {

enum class StepKind {
  // An operator's.
  kClear,
  kClearArtifacts,
  kDestroy,
  kDestroyPhysical,
  kDestroyStayDown,  // and, `duration_ms` after its end, kDeviceUp
  kDeviceUp,         // never by itself
  kReset,
  kRescan,
  // Faults.
  kKillClient,
  kStopClient,  // SIGSTOP, and SIGCONT after `duration_ms`
  kContinueClient,
  kCutClient,  // its sockets
  kKillHost,
  kSegvHost,
  kStopHost,
  kContinueHost,
  kKillDaemon,
  kTermDaemon,
  kStopDaemon,
  kContinueDaemon,
  kStartMute,  // a client that reads and never acknowledges, for `duration_ms`
  kStartDeaf,  // one that reads nothing
  kEndRude,
};
std::string_view Name(StepKind kind);
bool IsFault(StepKind kind);

struct Step {
  uint64_t at_ms = 0;
  StepKind kind = StepKind::kClear;
  uint32_t target = 0;  // a client, host or device: modulo how many there are
  uint64_t duration_ms = 0;
};

struct PlanOptions {
  uint64_t seed = 0;
  uint64_t seconds = 60;
  uint32_t clients = 16;
};

// Sorted by time.
std::vector<Step> MakePlan(const PlanOptions& options);

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_PLAN_H_
