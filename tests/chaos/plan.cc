#include "tests/chaos/plan.h"

#include <algorithm>
#include <random>

namespace kcache::chaos {
namespace {

struct Choice {
  StepKind kind;
  uint32_t weight;
  StepKind undo;  // itself: nothing is undone
  uint64_t least_ms, most_ms;
};

constexpr Choice kChoices[] = {
    {StepKind::kClear, 140, StepKind::kClear, 0, 0},
    {StepKind::kClearArtifacts, 12, StepKind::kClearArtifacts, 0, 0},
    {StepKind::kDestroy, 70, StepKind::kDestroy, 0, 0},
    {StepKind::kDestroyPhysical, 20, StepKind::kDestroyPhysical, 0, 0},
    {StepKind::kDestroyStayDown, 15, StepKind::kDestroyStayDown, 300, 1500},
    {StepKind::kReset, 30, StepKind::kReset, 0, 0},
    {StepKind::kRescan, 10, StepKind::kRescan, 0, 0},
    {StepKind::kKillClient, 130, StepKind::kKillClient, 0, 0},
    {StepKind::kStopClient, 110, StepKind::kContinueClient, 50, 5000},
    {StepKind::kCutClient, 130, StepKind::kCutClient, 0, 0},
    {StepKind::kKillHost, 45, StepKind::kKillHost, 0, 0},
    {StepKind::kSegvHost, 25, StepKind::kSegvHost, 0, 0},
    {StepKind::kStopHost, 20, StepKind::kContinueHost, 100, 4000},
    {StepKind::kKillDaemon, 7, StepKind::kKillDaemon, 0, 0},
    {StepKind::kTermDaemon, 6, StepKind::kTermDaemon, 0, 0},
    {StepKind::kStopDaemon, 12, StepKind::kContinueDaemon, 100, 2000},
    {StepKind::kStartMute, 30, StepKind::kEndRude, 1000, 6000},
    {StepKind::kStartDeaf, 20, StepKind::kEndRude, 1000, 6000},
};

constexpr uint64_t kMeanGapMs = 220;
// At the end everything that was stopped goes on, and what was begun ends.
constexpr uint64_t kCalmMs = 2000;

}  // namespace

std::string_view Name(StepKind kind) {
  switch (kind) {
    case StepKind::kClear:
      return "clear";
    case StepKind::kClearArtifacts:
      return "clear-artifacts";
    case StepKind::kDestroy:
      return "destroy";
    case StepKind::kDestroyPhysical:
      return "destroy-physical";
    case StepKind::kDestroyStayDown:
      return "destroy-stay-down";
    case StepKind::kDeviceUp:
      return "device-up";
    case StepKind::kReset:
      return "reset";
    case StepKind::kRescan:
      return "rescan";
    case StepKind::kKillClient:
      return "kill-client";
    case StepKind::kStopClient:
      return "stop-client";
    case StepKind::kContinueClient:
      return "continue-client";
    case StepKind::kCutClient:
      return "cut-client";
    case StepKind::kKillHost:
      return "kill-host";
    case StepKind::kSegvHost:
      return "segv-host";
    case StepKind::kStopHost:
      return "stop-host";
    case StepKind::kContinueHost:
      return "continue-host";
    case StepKind::kKillDaemon:
      return "kill-daemon";
    case StepKind::kTermDaemon:
      return "term-daemon";
    case StepKind::kStopDaemon:
      return "stop-daemon";
    case StepKind::kContinueDaemon:
      return "continue-daemon";
    case StepKind::kStartMute:
      return "mute-client";
    case StepKind::kStartDeaf:
      return "deaf-client";
    case StepKind::kEndRude:
      return "end-rude";
  }
  return "?";
}

bool IsFault(StepKind kind) {
  switch (kind) {
    case StepKind::kKillClient:
    case StepKind::kStopClient:
    case StepKind::kCutClient:
    case StepKind::kKillHost:
    case StepKind::kSegvHost:
    case StepKind::kStopHost:
    case StepKind::kKillDaemon:
    case StepKind::kTermDaemon:
    case StepKind::kStopDaemon:
    case StepKind::kStartMute:
    case StepKind::kStartDeaf:
      return true;
    default:
      return false;
  }
}

std::vector<Step> MakePlan(const PlanOptions& options) {
  std::mt19937_64 random(options.seed);
  uint32_t total = 0;
  for (const Choice& choice : kChoices) total += choice.weight;
  std::vector<Step> plan;
  const uint64_t end = options.seconds * 1000;
  for (uint64_t at = kMeanGapMs; at + kCalmMs < end; at += 1 + random() % (2 * kMeanGapMs)) {
    uint64_t draw = random() % total;
    const Choice* choice = kChoices;
    while (draw >= choice->weight) draw -= (choice++)->weight;
    const auto target = static_cast<uint32_t>(random());
    const uint64_t duration =
        choice->least_ms + (choice->most_ms > 0 ? random() % (choice->most_ms - choice->least_ms) : 0);
    plan.push_back({at, choice->kind, target, duration});
    if (choice->undo != choice->kind) plan.push_back({at + duration, choice->undo, target, 0});
  }
  std::stable_sort(plan.begin(), plan.end(),
                   [](const Step& a, const Step& b) { return a.at_ms < b.at_ms; });
  return plan;
}

}  // namespace kcache::chaos
