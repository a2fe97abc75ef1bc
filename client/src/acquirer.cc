#include "client/src/acquirer.h"

#include <algorithm>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::internal {
namespace {

constexpr int kMaxClears = 3;
constexpr Duration kFirstBackoff = std::chrono::milliseconds(2);
constexpr Duration kMaxBackoff = std::chrono::milliseconds(250);

absl::Status Closed() { return MakeError(v1::CANCELLED, "the client was closed"); }

// Answers that time will change by itself.
bool WorthWaiting(const absl::Status& status) {
  const v1::ErrorReason reason = ReasonOf(status);
  return reason == v1::DEVICE_DRAINING || reason == v1::NOT_READY;
}

absl::Status TooLate(const absl::Status& last) {
  if (last.ok()) {
    return MakeError(v1::DEADLINE_EXCEEDED, "the kernel was not ready before the deadline");
  }
  return MakeError(v1::DEADLINE_EXCEEDED,
                   absl::StrCat("the kernel was not ready before the deadline; last: ",
                                std::string(last.message())));
}

}  // namespace

Acquirer::Acquirer(std::shared_ptr<Runtime> runtime, std::shared_ptr<Memo> memo,
                   std::shared_ptr<Invalidator> invalidator, Adopt adopt)
    : runtime_(std::move(runtime)),
      memo_(std::move(memo)),
      invalidator_(std::move(invalidator)),
      adopt_(std::move(adopt)) {}

void Acquirer::Stop() { session_ = nullptr; }

void Acquirer::Start(Ask ask, Done done) {
  auto asker = std::make_shared<Asker>();
  asker->deadline = runtime_->timers->Now() + ask.timeout;
  asker->ask = std::move(ask);
  asker->done = std::move(done);
  runtime_->executor->Run([self = shared_from_this(), asker] {
    // Asked now, it would be overtaken by the AFTER that is still to come, and fail for nothing.
    if (!self->invalidator_->Draining(asker->ask.key.device)) return self->Attempt(asker);
    self->AttemptAfterDrain(asker, MakeError(v1::DEVICE_DRAINING,
                                             absl::StrCat(asker->ask.key.device.ToString(),
                                                          " is being destroyed")));
  });
}

void Acquirer::AttemptAfterDrain(const AskerPtr& asker, const absl::Status& last) {
  invalidator_->AfterDrain(asker->ask.key.device, NextBackoff(&asker->backoff),
                           asker->deadline - runtime_->timers->Now(),
                           [self = shared_from_this(), asker, last] {
                             if (self->runtime_->timers->Now() >= asker->deadline)
                               return asker->done(TooLate(last));
                             self->Attempt(asker);
                           });
}

void Acquirer::Attempt(const AskerPtr& asker) {
  if (session_ == nullptr) return asker->done(Closed());
  Memo::Cache& cache = memo_->cache();
  auto answer =
      cache.Begin(asker->ask.key, asker->ask.key.device,
                  [self = shared_from_this(), asker](const absl::StatusOr<Value>& outcome) {
                    self->runtime_->executor->Run([self, asker, outcome] {
                      self->runtime_->timers->Cancel(asker->timer);
                      self->OnOutcome(asker, /*own=*/false, outcome);
                    });
                  });
  if (auto* hit = std::get_if<Memo::Cache::Hit>(&answer)) {
    return asker->done(std::move(hit->value));
  }
  if (auto* build = std::get_if<Memo::Cache::Build>(&answer)) {
    return AskDaemon(asker, std::make_shared<Memo::Cache::Ticket>(std::move(build->ticket)));
  }
  const Memo::Cache::WaiterId waiter = std::get<Memo::Cache::Waiting>(answer).id;
  asker->timer = runtime_->timers->After(
      asker->deadline - runtime_->timers->Now(), [self = shared_from_this(), asker, waiter] {
        if (self->memo_->cache().CancelWait(asker->ask.key, waiter)) {
          self->runtime_->executor->Run([asker] { asker->done(TooLate(absl::OkStatus())); });
        }
      });
}

void Acquirer::AskDaemon(const AskerPtr& asker, std::shared_ptr<Memo::Cache::Ticket> ticket) {
  const Duration left = asker->deadline - runtime_->timers->Now();
  if (left <= Duration(0)) {
    memo_->cache().Abandon(std::move(*ticket), TooLate(absl::OkStatus()));
    return asker->done(TooLate(absl::OkStatus()));
  }
  SendAcquire(asker->ask.acquire, asker->ask.program, left,
              [self = shared_from_this(), asker, ticket](absl::StatusOr<v1::DaemonEvent> reply) {
                self->OnGrant(asker, ticket, std::move(reply));
              });
}

void Acquirer::OnGrant(const AskerPtr& asker, std::shared_ptr<Memo::Cache::Ticket> ticket,
                       absl::StatusOr<v1::DaemonEvent> reply) {
  Memo::Cache& cache = memo_->cache();
  absl::StatusOr<Value> kernel = !reply.ok() ? reply.status()
                                 : session_ == nullptr
                                     ? Closed()
                                     : adopt_(reply->grant(), session_->answered_order());
  if (ReasonOf(kernel.status()) == v1::LEASE_REVOKED && reply.ok()) {
    // Given back by ourselves behind this request.
    return AskDaemon(asker, std::move(ticket));
  }
  if (!kernel.ok()) {
    cache.Abandon(std::move(*ticket), kernel.status());
    return OnOutcome(asker, /*own=*/true, kernel.status());
  }
  auto completion = cache.Complete(std::move(*ticket), *std::move(kernel));
  if (completion.outcome == BuildOutcome::kInstalled) memo_->Trim(asker->ask.key);
  OnOutcome(asker, /*own=*/true, std::move(completion.value));
}

void Acquirer::OnOutcome(const AskerPtr& asker, bool own, absl::StatusOr<Value> outcome) {
  if (outcome.ok()) return asker->done(std::move(outcome));
  const absl::Status& status = outcome.status();
  if (session_ == nullptr) return asker->done(Closed());
  if (runtime_->timers->Now() >= asker->deadline) return asker->done(TooLate(status));
  if (memo_->cache().IsRetryable(status)) {
    if (asker->clears++ < kMaxClears) return Attempt(asker);
    return asker->done(status);
  }
  const v1::ErrorReason reason = ReasonOf(status);
  // It was asked for inside the destroy that it waited for, and the AFTER of that has overtaken it.
  if (reason == v1::DEVICE_DESTROYED && asker->backoff > Duration(0) &&
      asker->clears++ < kMaxClears) {
    return Attempt(asker);
  }
  if (!own && (reason == v1::DEADLINE_EXCEEDED || reason == v1::CANCELLED)) return Attempt(asker);
  if (!WorthWaiting(status)) return asker->done(status);
  AttemptAfterDrain(asker, status);
}

Duration Acquirer::NextBackoff(Duration* backoff) {
  *backoff = *backoff == Duration(0) ? kFirstBackoff : std::min(*backoff * 2, kMaxBackoff);
  return *backoff;
}

void Acquirer::StartPlain(v1::Acquire acquire, std::shared_ptr<const ProgramState> program,
                          std::optional<DeviceName> device, Duration timeout, GrantDone done) {
  const Time deadline = runtime_->timers->Now() + timeout;
  auto backoff = std::make_shared<Duration>(0);
  // Asks until it is not told to wait.
  auto attempt = std::make_shared<std::function<void()>>();
  *attempt = [self = shared_from_this(), acquire = std::move(acquire), program, device, deadline,
              backoff, done = std::move(done), weak = std::weak_ptr(attempt)] {
    auto again = weak.lock();
    const Duration left = deadline - self->runtime_->timers->Now();
    if (left <= Duration(0)) return done(TooLate(absl::OkStatus()));
    self->SendAcquire(
        acquire, program, left,
        [self, device, deadline, backoff, done, again](absl::StatusOr<v1::DaemonEvent> reply) {
          if (reply.ok()) return done(reply->grant());
          const Duration left = deadline - self->runtime_->timers->Now();
          if (!WorthWaiting(reply.status()) || self->session_ == nullptr || left <= Duration(0)) {
            return done(reply.status());
          }
          self->invalidator_->AfterDrain(device.value_or(DeviceName{}), NextBackoff(backoff.get()),
                                         left, [again] { (*again)(); });
        });
  };
  runtime_->executor->Run([attempt] { (*attempt)(); });
}

void Acquirer::SendAcquire(v1::Acquire acquire, std::shared_ptr<const ProgramState> program,
                           Duration timeout, Session::Reply reply) {
  if (session_ == nullptr) return reply(Closed());
  v1::ClientEvent event;
  *event.mutable_acquire() = std::move(acquire);
  sent_.fetch_add(1, std::memory_order_relaxed);
  auto id = std::make_shared<uint64_t>(0);
  *id = session_->Request(std::move(event), {.timeout = timeout},
                          [self = shared_from_this(), id,
                           reply = std::move(reply)](absl::StatusOr<v1::DaemonEvent> answer) {
                            self->programs_.erase(*id);
                            if (answer.ok()) {
                              self->grants_.fetch_add(1, std::memory_order_relaxed);
                            }
                            reply(std::move(answer));
                          });
  if (program != nullptr) programs_[*id] = std::move(program);
}

std::shared_ptr<const ProgramState> Acquirer::ProgramOf(uint64_t request_id) const {
  const auto found = programs_.find(request_id);
  return found == programs_.end() ? nullptr : found->second;
}

void Acquirer::FailProgram(const Digest& program, const absl::Status& why) {
  std::vector<uint64_t> waiting;
  for (const auto& [id, of] : programs_) {
    if (of->digest == program) waiting.push_back(id);
  }
  for (const uint64_t id : waiting) {
    if (session_ != nullptr) session_->Cancel(id, why);
  }
}

}  // namespace kcache::internal
