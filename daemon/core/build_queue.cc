#include "daemon/core/build_queue.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "daemon/core/errors.h"

namespace kcache::core {
namespace {

// Ends that are nobody's fault are tried again, but not for ever.
constexpr int kMaxUncounted = 8;
constexpr size_t kMaxRefusals = 65536;

int LineOf(v1::Priority priority) { return priority == v1::PRIORITY_PREWARM ? 1 : 0; }

v1::ErrorReason ReasonFor(CompileOutcome::End end) {
  switch (end) {
    case CompileOutcome::End::kTimedOut:
      return v1::COMPILE_TIMEOUT;
    case CompileOutcome::End::kOutOfMemory:
      return v1::COMPILE_OUT_OF_MEMORY;
    case CompileOutcome::End::kUnavailable:
      return v1::BACKEND_UNAVAILABLE;
    default:
      return v1::COMPILE_CRASHED;
  }
}

std::string_view EndName(const CompileOutcome& outcome) {
  switch (outcome.end) {
    case CompileOutcome::End::kReplied:
      return outcome.reply.has_error() ? "failed" : "compiled";
    case CompileOutcome::End::kNotCounted:
      return "not-counted";
    case CompileOutcome::End::kUnavailable:
      return "unavailable";
    default:
      return "died";
  }
}

std::shared_ptr<const v1::CompileRequest> RequestFor(const BuildSpec& spec, const Limits& limits) {
  auto request = std::make_shared<v1::CompileRequest>();
  request->set_framework(spec.framework);
  request->set_architecture(spec.architecture);
  request->set_device_index(spec.device_index);
  *request->mutable_manifest() = spec.program->manifest;
  request->set_source(*spec.program->source);
  for (size_t i = 0; i < spec.program->headers.size(); ++i) {
    v1::HeaderFile* header = request->add_headers();
    header->set_name(spec.program->manifest.headers(static_cast<int>(i)).name());
    header->set_content(*spec.program->headers[i]);
  }
  request->set_max_output_bytes(limits.max_artifact_bytes);
  request->set_max_log_bytes(limits.max_log_bytes);
  return request;
}

}  // namespace

absl::StatusOr<BuildQueue::WaiterId> BuildQueue::Build(BuildSpec spec, v1::Priority priority,
                                                       const std::string& domain,
                                                       Function<void(bool)> progress, Done done) {
  const Digest key = spec.key;
  if (absl::Status refused = CheckRefused(key); !refused.ok()) return refused;

  auto& slot = flights_[key];
  Flight* flight = slot.get();
  if (flight != nullptr && flight->epoch != epoch_) {
    if (flight->next == nullptr) {
      flight->next = std::make_unique<Flight>();
      flight->next->spec = std::move(spec);
      flight->next->priority = priority;
      flight->next->domain = domain;
    }
    flight = flight->next.get();
  } else if (flight == nullptr) {
    const auto in_line = queued_by_domain_.find(domain);
    const uint32_t mine = in_line == queued_by_domain_.end() ? 0 : in_line->second;
    absl::Status full = CheckQuota(domain);
    if (full.ok() && queued_ >= limits_->max_compiles_queued) {
      full = LimitExceeded("max_compiles_queued", limits_->max_compiles_queued,
                           absl::StrCat(queued_, " compiles are waiting"));
    } else if (full.ok() && mine >= limits_->max_compiles_queued_per_domain) {
      full = LimitExceeded("max_compiles_queued_per_domain",
                           limits_->max_compiles_queued_per_domain,
                           absl::StrCat(mine, " compiles of ", domain, " are waiting"));
    }
    if (!full.ok()) {
      flights_.erase(key);
      return full;
    }
    slot = std::make_unique<Flight>();
    flight = slot.get();
    flight->spec = std::move(spec);
    flight->priority = priority;
    flight->domain = domain;
    flight->epoch = epoch_;
    Enqueue(key, *flight, /*front=*/false);
  } else if (!flight->running && priority < flight->priority) {
    // Somebody waits for what was only being prewarmed: it moves to the other line. Its old place
    // there is skipped when its turn comes.
    flight->priority = priority;
    --queued_;
    --queued_by_domain_[flight->domain];
    Enqueue(key, *flight, /*front=*/false);
  }
  // Whoever asks for this key now has it from what was probed last.
  flight->outdated = false;
  const WaiterId id = ++next_waiter_;
  flight->waiters.push_back(
      {id, domain, !flight->waiters.empty() || flight->running, std::move(progress),
       std::move(done)});
  waiters_[id] = key;
  deps_->executor->Post([this] { Pump(); });
  return id;
}

void BuildQueue::Abandon(WaiterId waiter) {
  auto found = waiters_.find(waiter);
  if (found == waiters_.end()) return;
  const Digest key = found->second;
  waiters_.erase(found);
  auto flight = flights_.find(key);
  if (flight == flights_.end()) return;
  auto is_it = [waiter](const Waiter& one) { return one.id == waiter; };
  std::erase_if(flight->second->waiters, is_it);
  if (flight->second->next != nullptr) std::erase_if(flight->second->next->waiters, is_it);
}

void BuildQueue::Enqueue(const Digest& key, const Flight& flight, bool front) {
  auto& queue = lines_[LineOf(flight.priority)].by_domain[flight.domain];
  if (front) {
    queue.push_front(key);
  } else {
    queue.push_back(key);
  }
  ++queued_;
  ++queued_by_domain_[flight.domain];
}

// The next key of the domain whose turn it is.
bool BuildQueue::Dequeue(Line* line, Digest* key) {
  while (!line->by_domain.empty()) {
    auto turn = line->by_domain.upper_bound(line->last);
    if (turn == line->by_domain.end()) turn = line->by_domain.begin();
    line->last = turn->first;
    *key = turn->second.front();
    turn->second.pop_front();
    if (turn->second.empty()) line->by_domain.erase(turn);
    auto flight = flights_.find(*key);
    const bool stale = flight == flights_.end() || flight->second->running ||
                       &lines_[LineOf(flight->second->priority)] != line;
    if (!stale) return true;
  }
  return false;
}

void BuildQueue::Pump() {
  while (running_.size() < static_cast<uint64_t>(std::max(1, deps_->workers->slots()))) {
    Digest key;
    if (!Dequeue(&lines_[0], &key) && !Dequeue(&lines_[1], &key)) return;
    Flight* flight = flights_[key].get();
    --queued_;
    if (--queued_by_domain_[flight->domain] == 0) queued_by_domain_.erase(flight->domain);
    if (flight->waiters.empty()) {
      Finish(key, absl::CancelledError("nobody waits for this build any more"));
      continue;
    }
    if (absl::Status nobody = FindPayer(flight); !nobody.ok()) {
      Finish(key, std::move(nobody));
      continue;
    }
    StartJob(key, flight);
  }
}

absl::Status BuildQueue::CheckQuota(const std::string& domain) {
  const absl::Duration most = limits_->max_compile_time_per_domain;
  const absl::Duration spent =
      most == absl::InfiniteDuration() ? absl::ZeroDuration() : UseOf(domain).compile_time;
  if (spent >= most) {
    return MakeError(
        v1::LIMIT_EXCEEDED,
        absl::StrCat("compiles of ", domain, " took ",
                     absl::FormatDuration(absl::Trunc(spent, absl::Milliseconds(1))),
                     " in the last ", absl::FormatDuration(CompileTimes::kWindow),
                     "; the limit max_compile_time_per_domain is ", absl::FormatDuration(most),
                     "; try again in ",
                     absl::FormatDuration(
                         absl::Ceil(times_.BelowIn(domain, most), absl::Seconds(1)))),
        {{"limit", "max_compile_time_per_domain"}, {"value", absl::FormatDuration(most)}});
  }
  const uint64_t most_bytes = limits_->max_artifact_bytes_per_domain;
  if (most_bytes == 0) return absl::OkStatus();
  const uint64_t bytes = ArtifactBytes(domain);
  if (bytes < most_bytes) return absl::OkStatus();
  return LimitExceeded("max_artifact_bytes_per_domain", most_bytes,
                       absl::StrCat("artifacts of ", domain, " have ", bytes, " bytes"));
}

// Whoever asked first pays, unless he cannot and somebody else who waits can.
absl::Status BuildQueue::FindPayer(Flight* flight) {
  absl::Status first = CheckQuota(flight->domain);
  if (first.ok()) return first;
  for (const Waiter& waiter : flight->waiters) {
    if (waiter.domain == flight->domain || !CheckQuota(waiter.domain).ok()) continue;
    flight->domain = waiter.domain;
    return absl::OkStatus();
  }
  return first;
}

uint64_t BuildQueue::ArtifactBytes(const std::string& domain) {
  ArtifactStore* const store = deps_->artifacts;
  const std::pair<uint64_t, uint64_t> now{store->count(), store->bytes()};
  if (now != artifact_bytes_of_) {
    artifact_bytes_.clear();
    for (const ArtifactPtr& artifact : store->List()) {
      if (!artifact->domain.empty()) artifact_bytes_[artifact->domain] += artifact->bytes;
    }
    artifact_bytes_of_ = now;
  }
  const auto found = artifact_bytes_.find(domain);
  return found == artifact_bytes_.end() ? 0 : found->second;
}

BuildQueue::DomainUse BuildQueue::UseOf(const std::string& domain) {
  DomainUse use;
  if (auto found = queued_by_domain_.find(domain); found != queued_by_domain_.end()) {
    use.queued = found->second;
  }
  use.compile_time = times_.Spent(domain);
  const absl::Duration now = deps_->clock->Now();
  for (const auto& [key, flight] : running_) {
    if (flight->domain == domain) use.compile_time += now - flight->started;
  }
  use.artifact_bytes = ArtifactBytes(domain);
  return use;
}

void BuildQueue::StartJob(const Digest& key, Flight* flight) {
  flight->running = true;
  flight->started = deps_->clock->Now();
  running_[key] = flight;
  ++counters_.attempts;
  if (deps_->history != nullptr) {
    deps_->history->Record("compile-started", {{"key", key.hex()}, {"epoch", flight->epoch}});
  }
  for (Waiter& waiter : flight->waiters) {
    if (waiter.progress) waiter.progress(true);
  }
  flight->job = deps_->workers->Compile(
      flight->spec.family, RequestFor(flight->spec, *limits_),
      [this, key](CompileOutcome outcome) { OnOutcome(key, std::move(outcome)); });
}

void BuildQueue::OnOutcome(const Digest& key, CompileOutcome outcome) {
  Flight* flight = flights_[key].get();
  flight->running = false;
  running_.erase(key);
  if (deps_->history != nullptr) {
    deps_->history->Record("compile-ended", {{"key", key.hex()},
                                             {"epoch", flight->epoch},
                                             {"end", EndName(outcome)}});
  }
  const absl::Duration took = deps_->clock->Now() - flight->started;
  times_.Charge(flight->domain, took);
  const uint64_t took_ms = static_cast<uint64_t>(absl::ToInt64Milliseconds(took));

  if (outcome.end == CompileOutcome::End::kNotCounted && ++flight->uncounted < kMaxUncounted &&
      !flight->outdated) {
    Enqueue(key, *flight, /*front=*/true);
    Pump();
    return;
  }
  if (outcome.end != CompileOutcome::End::kReplied) {
    ++counters_.crashes;
    absl::Status died = CountDeath(key, flight, outcome);
    if (outcome.end == CompileOutcome::End::kCrashed && flight->deaths < 2 && !flight->outdated) {
      Enqueue(key, *flight, /*front=*/true);
    } else {
      Finish(key, std::move(died));
    }
    Pump();
    return;
  }
  if (outcome.reply.has_error()) {
    ++counters_.failures;
    Finish(key, FromProto(outcome.reply.error()));
    Pump();
    return;
  }
  ++counters_.compiles;
  refusals_.erase(key);
  auto stored = std::make_shared<StoredArtifact>();
  stored->key = key;
  stored->program = flight->spec.program->digest;
  stored->framework = flight->spec.framework;
  stored->compiler_version = flight->spec.compiler_version;
  stored->artifact = std::move(*outcome.reply.mutable_artifact());
  stored->artifact.set_compile_ms(took_ms);
  stored->bytes = stored->artifact.ByteSizeLong();
  stored->domain = flight->domain;
  BuildResult result{.artifact = stored, .joined = false, .compile_ms = took_ms};
  if (flight->epoch == epoch_) {
    if (absl::Status kept = deps_->artifacts->Put(stored); !kept.ok()) {
      deps_->events->Emit("artifact-not-kept", std::string(StdView(kept.message())),
                          {{"artifact", key.hex()}});
    }
  }
  deps_->events->Emit("compile-done", absl::StrCat("compiled in ", took_ms, " ms"),
                      {{"artifact", key.hex()},
                       {"framework", stored->framework},
                       {"bytes", std::to_string(stored->bytes)}});
  Finish(key, std::move(result));
  Pump();
}

absl::Status BuildQueue::CountDeath(const Digest& key, Flight* flight,
                                    const CompileOutcome& outcome) {
  ++flight->deaths;
  absl::Status status = MakeError(ReasonFor(outcome.end),
                                  absl::StrCat("the compiler for ", flight->spec.framework, ": ",
                                               outcome.what));
  deps_->events->Emit("compile-died", outcome.what,
                      {{"artifact", key.hex()}, {"framework", flight->spec.framework}});
  const bool counts = outcome.end != CompileOutcome::End::kUnavailable &&
                      outcome.end != CompileOutcome::End::kNotCounted;
  if (!counts) return status;
  if (refusals_.size() >= kMaxRefusals) refusals_.erase(refusals_.begin());
  Refusal& refusal = refusals_[key];
  ++refusal.crashes;
  refusal.reason = outcome.what;
  refusal.until = deps_->clock->Now() + limits_->refusal;
  return status;
}

absl::Status BuildQueue::CheckRefused(const Digest& key) {
  auto found = refusals_.find(key);
  if (found == refusals_.end()) return absl::OkStatus();
  const absl::Duration left = found->second.until - deps_->clock->Now();
  if (left <= absl::ZeroDuration()) {
    refusals_.erase(found);
    return absl::OkStatus();
  }
  if (found->second.crashes < limits_->compile_crashes_to_refuse) return absl::OkStatus();
  return MakeError(
      v1::COMPILE_REFUSED,
      absl::StrCat("this program ended its compiler ", found->second.crashes, " times (last: ",
                   found->second.reason, "); refused for another ",
                   absl::FormatDuration(absl::Ceil(left, absl::Seconds(1))),
                   ". An operator can clear it: kcachectl refusals --clear"),
      {{"artifact", key.hex()}});
}

void BuildQueue::Finish(const Digest& key, absl::StatusOr<BuildResult> result) {
  auto found = flights_.find(key);
  std::unique_ptr<Flight> flight = std::move(found->second);
  flights_.erase(found);
  if (flight->next != nullptr && !flight->next->waiters.empty()) {
    flight->next->epoch = epoch_;
    Enqueue(key, *flight->next, /*front=*/false);
    flights_[key] = std::move(flight->next);
    deps_->executor->Post([this] { Pump(); });
  }
  Answer(std::move(flight->waiters), result);
}

void BuildQueue::Answer(std::vector<Waiter> waiters, const absl::StatusOr<BuildResult>& result) {
  for (Waiter& waiter : waiters) {
    waiters_.erase(waiter.id);
    absl::StatusOr<BuildResult> mine = result;
    if (mine.ok()) mine->joined = waiter.joined;
    deps_->executor->Post(
        [done = std::move(waiter.done), mine = std::move(mine)]() mutable { done(std::move(mine)); });
  }
}

void BuildQueue::OnProbed() {
  const absl::Status outdated =
      MakeError(v1::CLEARED, "devices and compilers were probed anew before this compile began");
  // In the order in which they stand in line, so that they come to stand in it again.
  for (Line& line : lines_) {
    for (const auto& [domain, keys] : line.by_domain) {
      for (const Digest& key : keys) {
        auto flight = flights_.find(key);
        if (flight == flights_.end() || flight->second->running) continue;
        Answer(std::move(flight->second->waiters), outdated);
        if (flight->second->next != nullptr) {
          Answer(std::move(flight->second->next->waiters), outdated);
        }
        flights_.erase(flight);
      }
    }
    line.by_domain.clear();
  }
  queued_by_domain_.clear();
  queued_ = 0;
  for (auto& [key, flight] : flights_) {
    flight->outdated = true;
    if (flight->next == nullptr) continue;
    Answer(std::move(flight->next->waiters), outdated);
    flight->next.reset();
  }
}

v1::RefusalList BuildQueue::Refusals() const {
  v1::RefusalList list;
  const absl::Duration now = deps_->clock->Now();
  for (const auto& [key, refusal] : refusals_) {
    if (refusal.crashes < limits_->compile_crashes_to_refuse || refusal.until <= now) continue;
    v1::RefusalSummary* summary = list.add_refusals();
    summary->set_artifact_key(key.str());
    summary->set_reason(refusal.reason);
    summary->set_crashes(static_cast<uint32_t>(refusal.crashes));
    summary->set_remaining_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(refusal.until - now)));
  }
  return list;
}

uint64_t BuildQueue::ClearRefusals(const std::string& key) {
  if (key.empty()) {
    const uint64_t count = refusals_.size();
    refusals_.clear();
    return count;
  }
  auto digest = Digest::FromBytes(key);
  return digest.ok() ? refusals_.erase(*digest) : 0;
}

}  // namespace kcache::core
