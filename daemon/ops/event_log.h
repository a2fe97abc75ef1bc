// What happened, for operators: a bounded ring that `kcachectl events` reads and follows, and lines
// in the journal (or on stderr). Audit lines say who did what, with what result.
//
// Threads: any. Emit never blocks: lines are written by the logger's own thread, and when that falls
// behind the oldest ones are dropped. Followers are called without the lock, on the thread that
// emitted, and only told that there is something to read.

#ifndef KCACHE_DAEMON_OPS_EVENT_LOG_H_
#define KCACHE_DAEMON_OPS_EVENT_LOG_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "contract/mutex.h"
#include "daemon/core/dependencies.h"
#include "kcache/v1/admin.pb.h"

namespace kcache::ops {

class EventLog : public core::EventSink {
 public:
  explicit EventLog(size_t history) : history_(history) {}

  void Emit(std::string_view kind, std::string message, core::EventFields fields) override;
  void Audit(std::string_view who, std::string_view what, std::string_view result) override;

  // Events with a number above `since`, oldest first, at most `limit`.
  std::vector<v1::Event> Read(uint64_t since, size_t limit) const;

  // `wake` is called after each event until Unfollow. It must not call back into this object, and
  // it may still run once while Unfollow is called from another thread: let it own what it uses.
  uint64_t Follow(std::function<void()> wake);
  void Unfollow(uint64_t follower);

  uint64_t emitted() const;
  std::map<std::string, uint64_t> counts() const;  // by kind

 private:
  const size_t history_;
  mutable Mutex mutex_;
  uint64_t next_ ABSL_GUARDED_BY(mutex_) = 1;
  std::deque<v1::Event> ring_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, uint64_t> counts_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_follower_ ABSL_GUARDED_BY(mutex_) = 1;
  std::map<uint64_t, std::shared_ptr<std::function<void()>>> followers_ ABSL_GUARDED_BY(mutex_);
};

// Where log lines go: the journal when systemd runs us, else stderr. Once, at start-up.
void StartLogging(const std::string& level);
// Writes out what is pending.
void StopLogging();

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_EVENT_LOG_H_
