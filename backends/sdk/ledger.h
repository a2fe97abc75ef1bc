// The ledger: everything a device host owns, in the order it was acquired, with what gives it back.
//
// Releasing goes newest first, every entry is attempted, every failure is named by its label, and a
// second release of anything is a no-op (G12). Each change is also queued for the daemon, so that a
// host that dies half-way is reported by name, too.
//
// Threads: any. Release functions run without the lock.

#ifndef KCACHE_BACKENDS_SDK_LEDGER_H_
#define KCACHE_BACKENDS_SDK_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "contract/mutex.h"
#include "kcache/v1/backend.pb.h"

namespace kcache::backend {

using LedgerId = uint64_t;  // grows with time; 0 is none

struct ReleaseReport {
  std::vector<std::string> released;  // labels, in order
  std::vector<std::string> failures;  // "label: failure"
};

class Ledger {
 public:
  using Release = std::function<absl::Status()>;
  // Hears every change, without the lock.
  explicit Ledger(std::function<void(v1::LabelChange)> on_change)
      : on_change_(std::move(on_change)) {}

  LedgerId Add(std::string label, uint64_t device_bytes, uint64_t session, Release release);
  // Gives one back. OK for one that is gone already.
  absl::Status ReleaseOne(LedgerId id);
  // Everything that is left, newest first.
  ReleaseReport ReleaseAll();

  uint64_t device_bytes() const;

 private:
  struct Entry {
    std::string label;
    uint64_t device_bytes = 0;
    uint64_t session = 0;
    Release release;
  };
  bool Take(LedgerId id, Entry* entry);
  void Tell(const Entry& entry, bool acquired);

  const std::function<void(v1::LabelChange)> on_change_;
  mutable Mutex mutex_;
  std::map<LedgerId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  LedgerId next_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t device_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_LEDGER_H_
