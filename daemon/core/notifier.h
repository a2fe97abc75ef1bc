// Tells sessions about invalidations: who, in which order, exactly once (G2).
//
// Everybody of one step (operation, context, phase) gets the same revision; every step gets a larger
// one than the last. AFTER goes to exactly those who got BEFORE.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_NOTIFIER_H_
#define KCACHE_DAEMON_CORE_NOTIFIER_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/context.h"
#include "daemon/core/core.h"
#include "kcache/v1/types.pb.h"

namespace kcache::core {

// What a step's messages have in common.
struct Announcement {
  std::string operation_id;
  v1::InvalidationKind kind = v1::INVALIDATION_KIND_UNSPECIFIED;
  std::string family;              // empty: all
  std::optional<uint32_t> index;   // none: all
  std::string reason;
  absl::Duration grace;
  SessionId initiator = 0;
};

class Notifier {
 public:
  explicit Notifier(Core* core) : core_(core) {}

  // BEFORE to `sessions` about `context` (null: none of theirs). `holders` must acknowledge.
  void Before(const Announcement& what, const Context* context,
              const std::vector<SessionId>& sessions, const std::set<SessionId>& holders);

  // AFTER to those who still exist. `unacked` are told REVOKED_UNACKED.
  void After(const Announcement& what, const Context* context,
             const std::vector<SessionId>& sessions, const std::vector<SessionId>& unacked,
             bool lost);

  // A context died outside any operation.
  void Lost(const Context& context, const std::vector<SessionId>& sessions,
            const absl::Status& why, std::string operation_id);

 private:
  v1::Invalidate Step(const Announcement& what, const Context* context, v1::Phase phase);
  void Send(SessionId session, v1::Invalidate step, SessionId initiator);

  Core* const core_;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_NOTIFIER_H_
