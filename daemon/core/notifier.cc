#include "daemon/core/notifier.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"
#include "contract/strings.h"

namespace kcache::core {

v1::Invalidate Notifier::Step(const Announcement& what, const Context* context, v1::Phase phase) {
  v1::Invalidate step;
  step.set_operation_id(what.operation_id);
  step.set_revision(++core_->revision);
  step.set_phase(phase);
  step.set_kind(what.kind);
  step.set_family(what.family);
  if (what.index) step.set_index(*what.index);
  if (context != nullptr) *step.mutable_context() = context->ref();
  step.set_reason(what.reason);
  return step;
}

void Notifier::Send(SessionId id, v1::Invalidate step, SessionId initiator) {
  Session* session = core_->sessions.Find(id);
  if (session == nullptr) return;
  step.set_initiator(id == initiator);
  if (core_->deps.history != nullptr) {
    core_->deps.history->Record("told", {{"session", id},
                                         {"operation", ToHex(step.operation_id())},
                                         {"context", step.context().context_id()},
                                         {"phase", static_cast<uint64_t>(step.phase())},
                                         {"kind", static_cast<uint64_t>(step.kind())},
                                         {"revision", step.revision()}});
  }
  v1::DaemonEvent event;
  *event.mutable_invalidate() = std::move(step);
  session->Send(std::move(event));
}

void Notifier::Before(const Announcement& what, const Context* context,
                      const std::vector<SessionId>& sessions,
                      const std::set<SessionId>& holders) {
  if (sessions.empty()) return;
  v1::Invalidate step = Step(what, context, v1::PHASE_BEFORE);
  step.set_deadline_ms(static_cast<uint64_t>(absl::ToInt64Milliseconds(what.grace)));
  for (SessionId id : sessions) {
    step.set_needs_ack(holders.contains(id));
    Send(id, step, what.initiator);
  }
}

void Notifier::After(const Announcement& what, const Context* context,
                     const std::vector<SessionId>& sessions,
                     const std::vector<SessionId>& unacked, bool lost) {
  if (sessions.empty()) return;
  v1::Invalidate step = Step(what, context, v1::PHASE_AFTER);
  step.set_lost(lost);
  for (SessionId id : sessions) {
    v1::Invalidate mine = step;
    if (std::find(unacked.begin(), unacked.end(), id) != unacked.end()) {
      *mine.mutable_failure() = ToProto(MakeError(
          v1::REVOKED_UNACKED,
          absl::StrCat("your leases were revoked without your acknowledgement within ",
                       absl::FormatDuration(what.grace))));
    }
    Send(id, std::move(mine), what.initiator);
  }
}

void Notifier::Lost(const Context& context, const std::vector<SessionId>& sessions,
                    const absl::Status& why, std::string operation_id) {
  if (sessions.empty()) return;
  Announcement what;
  what.operation_id = std::move(operation_id);
  what.kind = v1::INVALIDATE_LOST;
  what.family = std::string(context.device().family());
  what.index = context.device().index;
  what.reason = std::string(why.message().data(), why.message().size());
  v1::Invalidate step = Step(what, &context, v1::PHASE_AFTER);
  step.set_lost(true);
  *step.mutable_failure() = ToProto(why);
  for (SessionId id : sessions) Send(id, step, 0);
}

}  // namespace kcache::core
