// The ledger: everything a device host owns, in the order it was acquired, with what gives it back.
//
// Releasing goes newest first, every entry is attempted, every failure is named by its label, and a
// second release of anything is a no-op (G12). Each change is also queued for the daemon, so that a
// host that dies half-way is reported by name, too.
//
// What takes device memory reserves it first, so that all sessions together stay within the bound of their
// trust domain however many of them ask at once.
//
// Threads: any; set_most_device_bytes before the first Reserve. Release functions run without the lock.

#ifndef KCACHE_BACKENDS_SDK_LEDGER_H_
#define KCACHE_BACKENDS_SDK_LEDGER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

  // Device memory that may be allocated now; given back with this object, unless Add has taken it over.
  class Reservation {
   public:
    Reservation(Reservation&& other) noexcept
        : ledger_(std::exchange(other.ledger_, nullptr)), bytes_(other.bytes_) {}
    ~Reservation();
    uint64_t bytes() const { return bytes_; }

   private:
    friend class Ledger;
    Reservation(Ledger* ledger, uint64_t bytes) : ledger_(ledger), bytes_(bytes) {}
    Ledger* ledger_;
    const uint64_t bytes_;
  };

  // 0: no bound.
  void set_most_device_bytes(uint64_t most) { most_device_bytes_ = most; }
  // LIMIT_EXCEEDED naming limits.max_device_bytes_per_domain.
  absl::StatusOr<Reservation> Reserve(uint64_t device_bytes);

  LedgerId Add(std::string label, uint64_t session, Release release);  // takes no device memory
  LedgerId Add(std::string label, Reservation memory, uint64_t session, Release release);
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
  LedgerId AddEntry(Entry entry);
  void GiveBack(uint64_t device_bytes);
  bool Take(LedgerId id, Entry* entry);
  void Tell(const Entry& entry, bool acquired);

  const std::function<void(v1::LabelChange)> on_change_;
  uint64_t most_device_bytes_ = 0;
  mutable Mutex mutex_;
  std::map<LedgerId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  LedgerId next_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t device_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // reservations included
};

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_LEDGER_H_
