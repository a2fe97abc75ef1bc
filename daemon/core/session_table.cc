#include "daemon/core/session_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/lease_token.h"
#include "daemon/core/errors.h"

namespace kcache::core {

bool Session::Wants(std::string_view family) const {
  if (!subscribed) return false;
  return families.empty() || family.empty() ||
         std::find(families.begin(), families.end(), family) != families.end();
}

std::string Session::Describe() const {
  return absl::StrCat(name.empty() ? "client" : name, " (",
                      peer.pid == 0 ? "pid unknown" : absl::StrCat("pid ", peer.pid), ")");
}

void Session::Send(v1::DaemonEvent event) {
  const bool fits = outbox.Push(std::move(event));
  if (endpoint == nullptr || close_pending) return;
  if (!fits) {
    // The client does not read. Its leases live on; it may come back on another stream.
    close_pending = true;
    const std::string waiting = absl::StrCat("this client does not read what it is sent, ",
                                             outbox.events(), " events of ", outbox.bytes(),
                                             " bytes are waiting, and its stream is cut");
    endpoint->Close(
        outbox.events() > outbox.max_events()
            ? LimitExceeded("max_outbox_events", outbox.max_events(), waiting)
            : LimitExceeded("max_outbox_bytes", outbox.max_bytes(), waiting));
    return;
  }
  if (wake_pending) return;
  wake_pending = true;
  endpoint->Wake();
}

void Session::SendFailure(uint64_t request_id, const absl::Status& status) {
  v1::DaemonEvent event;
  event.mutable_failure()->set_request_id(request_id);
  *event.mutable_failure()->mutable_error() = ToProto(status);
  Send(std::move(event));
}

absl::StatusOr<Session*> SessionTable::Create(const Peer& peer, std::string name) {
  const Limits& limits = options_->limits;
  if (sessions_.size() >= limits.max_sessions) {
    return LimitExceeded("max_sessions", limits.max_sessions,
                         absl::StrCat(sessions_.size(), " sessions are open"));
  }
  SessionId id = deps_->random->Id();
  while (sessions_.contains(id)) id = deps_->random->Id();
  TrustDomain domain = DomainOf(peer, id, options_->domain_policy);
  uint32_t& mine = by_domain_[domain.name];
  if (mine >= limits.max_sessions_per_domain) {
    return LimitExceeded("max_sessions_per_domain", limits.max_sessions_per_domain,
                         absl::StrCat(mine, " sessions of ", domain.name, " are open"));
  }
  ++mine;
  auto session = std::make_unique<Session>(limits);
  session->id = id;
  session->key = deps_->random->Bytes(16);
  session->peer = peer;
  session->domain = std::move(domain);
  session->name = std::move(name);
  session->opened = session->last_heard = deps_->clock->Now();
  Session* raw = session.get();
  sessions_[id] = std::move(session);
  if (deps_->history != nullptr) {
    deps_->history->Record("session-opened", {{"session", id},
                                              {"pid", static_cast<uint64_t>(peer.pid)},
                                              {"domain", raw->domain.name}});
  }
  return raw;
}

Session* SessionTable::Find(SessionId id) {
  auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

absl::StatusOr<Session*> SessionTable::Authenticate(const Peer& peer, SessionId id,
                                                    std::string_view key) {
  Session* session = Find(id);
  if (session == nullptr) {
    return MakeError(v1::SESSION_UNKNOWN,
                     absl::StrCat("no session ", absl::Hex(id, absl::kZeroPad16)));
  }
  // A session is one process's, also among processes of one user. Unknown pids cannot be told apart.
  const bool same_process =
      session->peer.pid == peer.pid || session->peer.pid == 0 || peer.pid == 0;
  const bool same = session->peer.uid == peer.uid &&
                    session->peer.container == peer.container && same_process;
  if (!same || !ConstantTimeEquals(session->key, key)) {
    deps_->events->Emit("foreign-session",
                        absl::StrCat("uid ", peer.uid, " pid ", peer.pid,
                                     " named the session of ", session->Describe()),
                        {{"uid", std::to_string(peer.uid)}, {"pid", std::to_string(peer.pid)}});
    return MakeError(v1::PERMISSION_DENIED,
                     absl::StrCat("session ", absl::Hex(id, absl::kZeroPad16), " is not yours"));
  }
  return session;
}

void SessionTable::End(Session* session, std::string_view why) {
  if (session->ended) return;
  session->ended = true;
  if (deps_->history != nullptr) {
    deps_->history->Record("session-ended", {{"session", session->id}, {"why", why}});
  }
  on_end_(*session, why);
  if (--by_domain_[session->domain.name] == 0) by_domain_.erase(session->domain.name);
  sessions_.erase(session->id);
}

uint64_t SessionTable::leases() const {
  uint64_t total = 0;
  for (const auto& [id, session] : sessions_) total += session->leases.size();
  return total;
}

void SessionTable::StartReaping() {
  const absl::Duration period = options_->limits.session_ttl / 8;
  reap_due_ = deps_->clock->Now() + period;
  deps_->executor->RunAfter(period, [this] { Reap(); });
}

void SessionTable::Reap() {
  const absl::Duration now = deps_->clock->Now();
  const absl::Duration ttl = options_->limits.session_ttl;
  if (now - reap_due_ > ttl / 4) {
    // Stopped or suspended: clients could not be heard meanwhile. What they sent is in the sockets.
    not_before_ = now + ttl;
    deps_->events->Emit("daemon-stalled",
                        absl::StrCat("the daemon was stalled for ",
                                     absl::FormatDuration(now - reap_due_),
                                     "; every session gets a full TTL"),
                        {});
  }
  if (now >= not_before_) {
    std::vector<Session*> silent;
    for (auto& [id, session] : sessions_) {
      if (now - session->last_heard > ttl) silent.push_back(session.get());
    }
    for (Session* session : silent) {
      SessionEndpoint* endpoint = session->endpoint;
      End(session, "silent for longer than the TTL");
      if (endpoint != nullptr) {
        endpoint->Close(MakeError(v1::SESSION_EXPIRED,
                                  absl::StrCat("no message for longer than the TTL of ",
                                               absl::FormatDuration(ttl))));
      }
    }
  }
  StartReaping();
}

}  // namespace kcache::core
