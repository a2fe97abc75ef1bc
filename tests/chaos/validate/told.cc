// G2: a listener hears of an operation (of a destroy: and device) BEFORE and then AFTER, each exactly once, in
// the order of revisions; and it hears of all that its daemon told its session, and of every operation of
// an operator that began and ended while it listened.

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "tests/chaos/validate/validator.h"

namespace kcache::chaos {
namespace {

struct Pair {
  uint64_t before = 0, after = 0;  // how often
  uint64_t before_time = 0, after_time = 0;
  uint64_t revision = 0;  // of BEFORE
};

// One session of one client process, as its listeners saw it.
struct Listening {
  SessionId session = 0;
  const Daemon* daemon = nullptr;
  uint64_t from = kNever;   // subscribed for sure
  uint64_t until = 0;       // what was sent before has been heard: the last barrier
  uint64_t revision = 0;
  std::vector<uint64_t> covers;  // "you may have missed something"
  std::map<std::string, Pair> pairs;  // "OPERATION device Fake:0"
};

std::string KeyOf(const Record& event) {
  return absl::StrCat(event.Text("operation"), " ", event.Text("what"), " ", event.Text("family"),
                      ":", event.Text("index"));
}

class ClientHearing {
 public:
  ClientHearing(const Run& run, const Client& client, Verdict* verdict)
      : run_(run), client_(client), verdict_(verdict) {}

  void Take(const Record& record) {
    if (record.kind == "session") {
      now_.session = latest_ = record.Number("session");
      now_.daemon = latest_daemon_ = run_.FindDaemon(record.Text("instance"));
    } else if (record.kind == "listening") {
      now_.from = record.time;
    } else if (record.kind == "barrier-began") {
      barrier_ = record.time;
      barrier_session_ = record.Number("session");
    } else if (record.kind == "barrier") {
      if (record.Number("session") == now_.session && barrier_session_ == now_.session) {
        now_.until = barrier_;
        // Listeners outlive sessions; of a later one this is where they certainly listened.
        if (now_.from == kNever) now_.from = record.time;
      }
    } else if (record.kind == "event") {
      Hear(record);
    } else if (record.kind == "closed") {
      EndSession();
    }
  }

  // The session is over, or the process.
  void EndSession() {
    for (const auto& [key, pair] : now_.pairs) {
      ++verdict_->facts;
      // One that is still open may end later; whether it should have by now, the daemon's record says.
      if (pair.before != 1 || pair.after > 1) {
        Violation(absl::StrCat(key, ": ", pair.before, " times BEFORE, ", pair.after,
                               " times AFTER"));
      }
    }
    if (now_.daemon != nullptr) {
      CheckTold();
      CheckOperations();
    }
    now_ = Listening();
  }

 private:
  void Hear(const Record& event) {
    const std::string cause = event.Text("cause");
    const bool before = event.Text("phase") == "before";
    if (cause == "session-lost" || cause == "missed") {
      now_.covers.push_back(event.time);
      // A new session follows; the old one's revisions mean nothing in it.
      if (cause == "session-lost" && !before) {
        EndSession();
        now_.session = latest_;
        now_.daemon = latest_daemon_;
      }
      return;
    }
    const uint64_t revision = event.Number("revision");
    Pair& pair = now_.pairs[KeyOf(event)];
    if (before) {
      ++pair.before;
      pair.before_time = event.time;
      pair.revision = revision;
    } else {
      ++pair.after;
      pair.after_time = event.time;
      if (pair.before == 0) Violation(KeyOf(event) + ": AFTER without BEFORE");
    }
    // An AFTER that a covering record stands for carries its BEFORE's revision.
    const bool covered = !before && revision == pair.revision;
    if (revision < now_.revision && !covered) {
      Violation(absl::StrCat(KeyOf(event), ": revision ", revision, " after ", now_.revision));
    }
    now_.revision = std::max(now_.revision, revision);
  }

  bool Covered(uint64_t from) const {
    return std::any_of(now_.covers.begin(), now_.covers.end(),
                       [from](uint64_t time) { return time >= from; });
  }

  // Whether some listener heard of the operation in this phase.
  bool Heard(const std::string& operation, bool before) const {
    for (auto pair = now_.pairs.lower_bound(operation);
         pair != now_.pairs.end() && pair->first.starts_with(operation); ++pair) {
      if ((before ? pair->second.before : pair->second.after) > 0) return true;
    }
    return false;
  }

  // An AFTER is told once all contexts of the step have got theirs.
  void CheckTold() {
    std::map<std::string, uint64_t> last_after;
    for (const Told& told : now_.daemon->told) {
      if (told.session == now_.session && !told.before) {
        uint64_t& last = last_after[told.operation];
        last = std::max(last, told.time);
      }
    }
    for (const Told& told : now_.daemon->told) {
      if (told.session != now_.session || told.time < now_.from || told.time >= now_.until) continue;
      if (!told.before && last_after[told.operation] >= now_.until) continue;
      if (Heard(told.operation, told.before)) {
        ++verdict_->facts;
      } else if (Covered(told.time)) {
        ++verdict_->excused;
      } else {
        Violation(absl::StrCat("operation ", told.operation, ", revision ", told.revision,
                               ": told ", told.before ? "BEFORE" : "AFTER", " at ", told.time,
                               ", never heard"));
      }
    }
  }

  void CheckOperations() {
    for (const auto& [id, operation] : now_.daemon->operations) {
      const bool clear = operation.kind == "clear", destroy = operation.kind == "destroy-device";
      if ((!clear && !destroy) || operation.scope.find(" of ") != std::string::npos) continue;
      if (operation.started < now_.from || operation.ended >= now_.until) continue;
      if (operation.kind == "clear" && operation.running == kNever) continue;  // refused
      if (Heard(id, true) && Heard(id, false)) {
        ++verdict_->facts;
      } else if (Covered(operation.started) || (destroy && Joined(operation))) {
        ++verdict_->excused;
      } else {
        Violation(absl::StrCat(operation.kind, " ", operation.scope, " (", id,
                               "): began and ended while it listened, not heard"));
      }
    }
  }

  // Two destroys of one device are told once, under the first one's id; who began to listen between the two
  // had nothing there that could go.
  bool Joined(const OperationLife& operation) const {
    for (const auto& [id, other] : now_.daemon->operations) {
      const bool all = other.kind == "shutdown";
      if (id == operation.id || (!all && DeviceOf(other) != DeviceOf(operation))) continue;
      if (other.started > operation.started || other.ended < operation.started) continue;
      if (other.started < now_.from || (Heard(id, true) && Heard(id, false))) return true;
    }
    return false;
  }

  // Of "Fake:0 (the card), staying down"; nothing for what concerns one domain only.
  static std::string DeviceOf(const OperationLife& operation) {
    if (operation.kind != "destroy-device" ||
        operation.scope.find(" of ") != std::string::npos) {
      return "";
    }
    return operation.scope.substr(0, operation.scope.find_first_of(" ,"));
  }

  void Violation(const std::string& what) {
    verdict_->violations.push_back(
        absl::StrCat(client_.file->name, ", session ", now_.session, ": ", what));
  }

  const Run& run_;
  const Client& client_;
  Verdict* const verdict_;
  Listening now_;
  SessionId latest_ = 0;
  const Daemon* latest_daemon_ = nullptr;
  uint64_t barrier_ = 0;
  SessionId barrier_session_ = 0;
};

}  // namespace

Verdict ToldBeforeAndAfter(const Run& run) {
  Verdict verdict;
  for (const Client& client : run.clients()) {
    ClientHearing hearing(run, client, &verdict);
    for (const Record& record : client.file->records) hearing.Take(record);
    hearing.EndSession();
  }
  return verdict;
}

}  // namespace kcache::chaos
