// What a session has still to be told: one bounded FIFO of grants and invalidations, in order.
//
// On overflow, in this order: progress is dropped; invalidations that nobody waits for coalesce
// upwards, first per device, then into one (INVALIDATE_COVER, which counts for both phases and makes
// the client drop what it covers); if that does not help, the stream must be cut. An invalidation is
// never skipped, and one that asks for an acknowledgement stays as it is.
//
// Delivered invalidations are remembered until the client says that it has handled them, so that
// they can be replayed to a stream that resumes the session.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_CORE_OUTBOX_H_
#define KCACHE_DAEMON_CORE_OUTBOX_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "kcache/v1/session.pb.h"

namespace kcache::core {

class Outbox {
 public:
  Outbox(size_t max_events, size_t max_bytes) : max_events_(max_events), max_bytes_(max_bytes) {}

  // False: over the bound even after coalescing; cut the stream.
  bool Push(v1::DaemonEvent event);

  // Ahead of everything: the Welcome of a resumed stream.
  void PushFront(v1::DaemonEvent event);

  // Moves events, oldest first, into `message`: at least one if there is any, else up to `max_bytes`.
  bool Take(size_t max_bytes, v1::DaemonMessage* message);

  // The client has handled every invalidation up to this revision.
  void Confirm(uint64_t revision);

  // Prepares for a resumed stream whose client has handled everything up to `revision`: what was
  // delivered after that is queued again, and an operation whose BEFORE and AFTER are both still
  // undelivered becomes one INVALIDATE_MISSED. Everything but invalidations is dropped: the client
  // asks again for what it still wants.
  void Resume(uint64_t revision);

  size_t events() const { return queue_.size(); }
  size_t bytes() const { return bytes_; }
  size_t max_events() const { return max_events_; }
  size_t max_bytes() const { return max_bytes_; }

 private:
  // Kept invalidations beyond this are merged into one COVER.
  static constexpr size_t kMaxDelivered = 1024;

  enum class Scope { kDevice, kAll };
  void DropProgress();
  void Coalesce(Scope scope);
  bool Over() const { return queue_.size() > max_events_ || bytes_ > max_bytes_; }
  void Recount();

  const size_t max_events_;
  const size_t max_bytes_;
  size_t bytes_ = 0;
  std::deque<v1::DaemonEvent> queue_;
  std::deque<v1::Invalidate> delivered_;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_OUTBOX_H_
