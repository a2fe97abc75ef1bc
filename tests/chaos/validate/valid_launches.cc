// No valid launch is refused: what a client submitted before it acknowledged or released its lease is admitted
// by the host, in a context that lives; and what the library took, and the host executed, has its effect.
//
// Two views. The host's: a refused launch may not lie within what its session announced (with its Ack or
// Release), and some revocation must have preceded it. The client's: a round whose launches were all
// taken ends well, unless its context, its session or its grace ended meanwhile.

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "kcache/v1/types.pb.h"
#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {
namespace {

// How long after the end of a grace its holder may still not know.
constexpr uint64_t kUnawareness = 5000 * kMillisecond;

bool IsLeaseReason(uint64_t reason) {
  return reason == v1::LEASE_REVOKED || reason == v1::LEASE_UNKNOWN || reason == v1::LEASE_FOREIGN;
}

bool IsLeaseReason(const std::string& name) {
  return name == "LEASE_REVOKED" || name == "LEASE_UNKNOWN" || name == "LEASE_FOREIGN";
}

bool GraceEnded(const Daemon& daemon, ContextId context, SessionId session, uint64_t from,
                uint64_t until) {
  auto settled = daemon.settled.find({context, session});
  if (settled == daemon.settled.end()) return false;
  return std::any_of(settled->second.begin(), settled->second.end(), [&](const Settled& one) {
    return one.how == "grace-over" && one.time >= from && one.time <= until;
  });
}

// ---- the host's view ----------------------------------------------------------------------------

class HostView {
 public:
  HostView(const Host& host, Verdict* verdict)
      : host_(host), daemon_(*host.daemon), verdict_(verdict) {}

  void Take(const Record& record) {
    const SessionId session = record.Number("session");
    if (record.kind == "attached") {
      ++streams_[session];
    } else if (record.kind == "admitted") {
      ++verdict_->facts;
    } else if (record.kind == "refused" && IsLeaseReason(record.Number("reason"))) {
      ++verdict_->facts;
      Judge(record, session);
    }
  }

 private:
  void Judge(const Record& record, SessionId session) {
    auto life = daemon_.sessions.find(session);
    const bool ended = life == daemon_.sessions.end() || life->second.ended <= record.time;
    if (ended || GraceEnded(daemon_, host_.context, session, 0, record.time)) {
      ++verdict_->excused;
      return;
    }
    // A second stream counts anew; what was announced for the first says nothing about it.
    if (streams_[session] > 1) {
      ++verdict_->excused;
      return;
    }
    const uint64_t queue = record.Number("queue"), sequence = record.Number("sequence");
    bool confirmed = false;
    auto announced = daemon_.announced.find({host_.context, session});
    if (announced != daemon_.announced.end()) {
      for (const Announced& one : announced->second) {
        confirmed |= one.time <= record.time;
        auto position = one.positions.find(queue);
        if (position == one.positions.end() || position->second < sequence) continue;
        Violation(record, absl::StrCat("although its session had announced that queue up to ",
                                       position->second));
        return;
      }
    }
    if (!confirmed) Violation(record, "and its session had neither acknowledged nor released anything");
  }

  void Violation(const Record& record, const std::string& why) {
    verdict_->violations.push_back(absl::StrCat(
        host_.file->name, " (context ", host_.context, "): launch ", record.Number("sequence"),
        " on queue ", record.Number("queue"), " of session ", record.Number("session"),
        " was refused at ", record.time, ", ", why));
  }

  const Host& host_;
  const Daemon& daemon_;
  Verdict* const verdict_;
  std::map<SessionId, int> streams_;
};

// ---- the client's view --------------------------------------------------------------------------

class ClientView {
 public:
  ClientView(const Run& run, const Client& client, Verdict* verdict)
      : run_(run), client_(client), verdict_(verdict) {}

  void Take(const Record& record) {
    if (record.kind == "session") {
      session_ = record.Number("session");
      daemon_ = run_.FindDaemon(record.Text("instance"));
    } else if (record.kind == "round") {
      started_ = record.time;
    } else if (record.kind == "round-ended" && record.Number("accepted") > 0) {
      Judge(record);
    }
  }

 private:
  void Judge(const Record& record) {
    const std::string synchronized = record.Text("synchronized");
    if (record.Number("wrong") > 0) {
      Violation(record, absl::StrCat("left ", record.Number("wrong"), " wrong results"));
    }
    if (synchronized == "OK") {
      ++verdict_->facts;
    } else if (!IsLeaseReason(synchronized) || Excused(record)) {
      ++verdict_->excused;
    } else {
      ++verdict_->facts;
      Violation(record, "had its launches taken, and refused as " + synchronized);
    }
  }

  // Whether the context, the session or a grace ended during the round.
  bool Excused(const Record& record) const {
    if (daemon_ == nullptr || daemon_->last <= record.time) return true;
    auto session = daemon_->sessions.find(session_);
    if (session == daemon_->sessions.end() || session->second.ended <= record.time) return true;
    const std::string device = record.Text("device");
    for (const auto& [id, context] : daemon_->contexts) {
      if (context.device != device || context.domain != session->second.domain) continue;
      if (context.made > record.time || context.ended < started_) continue;
      if (context.ended <= record.time) return true;
      if (GraceEnded(*daemon_, id, session_,
                     started_ > kUnawareness ? started_ - kUnawareness : 0, record.time)) {
        return true;
      }
      for (const Drain& drain : daemon_->drains) {
        if (drain.context == id && drain.destroy && drain.started <= record.time) return true;
      }
    }
    return false;
  }

  void Violation(const Record& record, const std::string& what) {
    verdict_->violations.push_back(absl::StrCat(client_.file->name, ": round ",
                                                record.Number("round"), " on ",
                                                record.Text("device"), " ", what, ", at ",
                                                record.time));
  }

  const Run& run_;
  const Client& client_;
  Verdict* const verdict_;
  SessionId session_ = 0;
  const Daemon* daemon_ = nullptr;
  uint64_t started_ = 0;
};

}  // namespace

Verdict ValidLaunchesAreTaken(const Run& run) {
  Verdict verdict;
  for (const Host& host : run.hosts()) {
    if (host.daemon == nullptr) continue;
    HostView view(host, &verdict);
    for (const Record& record : host.file->records) view.Take(record);
  }
  for (const Client& client : run.clients()) {
    ClientView view(run, client, &verdict);
    for (const Record& record : client.file->records) view.Take(record);
  }
  return verdict;
}

}  // namespace kcache::chaos
