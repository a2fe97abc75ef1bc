// Being told before handles go away, and again when they are gone.
//
// A listener drops what it has memoized over kernel handles, and nothing else: it owns no handles
// and releases none. It runs on a thread of the library, one listener at a time, and no teardown
// waits for it longer than the operation's grace. Blocking calls of the library inside a listener
// fail with BLOCKING_IN_LISTENER.
//
// Every listener runs, whatever the others answer; the first failure is reported to
// ClientOptions::on_problem, and to the caller when it was this process that asked for the
// operation. A listener that throws has failed.
//
// For one operation (of a destroy: and device) a listener gets kBefore and then kAfter, each
// exactly once, joined and nested operations and reconnects included. Between the two, an acquire
// on a device that is being destroyed waits. When the daemon could only tell afterwards (cause
// kLost, kMissed, kSessionLost) both come in a row.

#ifndef KCACHE_LISTENER_H_
#define KCACHE_LISTENER_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "kcache/device.h"

namespace kcache {

// 16 random bytes; all zero: none. Carrying it into a nested Clear or DestroyDevice makes that part
// of the same operation, so that nobody is told twice.
struct OperationId {
  std::array<uint8_t, 16> bytes = {};

  static OperationId New();
  bool given() const { return bytes != std::array<uint8_t, 16>{}; }
  std::string ToString() const;  // 32 hexadecimal digits
  friend bool operator==(const OperationId&, const OperationId&) = default;
};

enum class EventPhase { kBefore = 1, kAfter = 2 };

enum class EventCause {
  kDestroyed,    // somebody destroyed the device
  kCleared,      // somebody cleared handles
  kReset,        // global device ids were retired; nothing is released
  kLost,         // the context died (fault, crash, reset of the card)
  kMissed,       // this process was away, or too slow to be told one by one
  kSessionLost,  // the daemon restarted or gave this session up: everything is void
};

struct InvalidationEvent {
  EventPhase phase = EventPhase::kBefore;
  EventCause cause = EventCause::kCleared;
  OperationId operation;
  uint64_t revision = 0;               // orders events within one life of the daemon
  std::string reason;                  // for people
  std::chrono::milliseconds grace{0};  // kBefore: what is left of the operation's grace
  bool initiator = false;              // this process asked for it
  bool lost = false;                   // kAfter: the context was lost meanwhile
  absl::Status failure;                // kAfter: what failed, e.g. REVOKED_UNACKED for this process
};

// A device goes, with every kernel and buffer on it. `Concerns` matches as it must be matched: on
// the pair, and a "CUDA/PTX" device along with its family's.
struct DeviceEvent : InvalidationEvent {
  std::string family;             // empty (cause kMissed, kSessionLost only): all
  std::optional<uint32_t> index;  // not given (the same): every device of the family

  bool Concerns(const DeviceId& device) const;
};

// Kernels go, devices and buffers stay.
struct ClearEvent : InvalidationEvent {
  std::string family;             // empty: all
  std::optional<uint32_t> index;  // not given: every device of the family

  bool Concerns(const DeviceId& device) const;
};

using DeviceListener = std::function<absl::Status(const DeviceEvent&)>;
using ClearListener = std::function<absl::Status(const ClearEvent&)>;

// Unregisters when destroyed, and then waits for the callback if it is running on another thread.
// May be created and destroyed from any thread, also inside a callback. May outlive the Client.
class [[nodiscard]] Registration {
 public:
  Registration() = default;
  explicit Registration(std::function<void()> unregister) : unregister_(std::move(unregister)) {}
  ~Registration() { Unregister(); }
  Registration(Registration&& other) noexcept
      : unregister_(std::exchange(other.unregister_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    if (this != &other) {
      Unregister();
      unregister_ = std::exchange(other.unregister_, nullptr);
    }
    return *this;
  }

  void Unregister() {
    if (auto unregister = std::exchange(unregister_, nullptr)) unregister();
  }

 private:
  std::function<void()> unregister_;
};

}  // namespace kcache

#endif  // KCACHE_LISTENER_H_
