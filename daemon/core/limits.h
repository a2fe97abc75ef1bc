// Every bound and every duration of the core, with its default. One place, so that the configuration,
// the error messages and the documentation name the same things.

#ifndef KCACHE_DAEMON_CORE_LIMITS_H_
#define KCACHE_DAEMON_CORE_LIMITS_H_

#include <cstdint>
#include <string>

#include "absl/time/time.h"

namespace kcache::core {

// Who shares an address space on a device. See SECURITY.md.
enum class DomainPolicy {
  kUid,      // the peer's uid, refined by its container where the cgroup tells it
  kGroup,    // the peer's primary gid
  kSession,  // every session for itself
  kNode,     // everybody
};

struct Limits {
  // Sessions.
  uint32_t max_sessions = 4096;
  uint32_t max_sessions_per_domain = 4096;
  uint32_t max_leases_per_session = 65536;
  uint32_t max_leases_per_domain = 0;  // 0: none but the sessions'
  uint32_t max_pins_per_session = 65536;
  uint32_t max_requests_per_session = 8192;  // outstanding
  uint32_t max_outbox_events = 16384;
  uint64_t max_outbox_bytes = 16u << 20;
  uint32_t max_client_name_bytes = 128;

  // Programs and artifacts.
  uint64_t max_message_bytes = 4u << 20;
  uint64_t max_source_bytes = 16u << 20;   // source and headers of one program together
  uint32_t max_headers = 16384;
  uint64_t max_source_cache_bytes = 256u << 20;
  uint64_t max_artifact_bytes = 256u << 20;
  uint64_t max_log_bytes = 1u << 20;
  uint32_t max_compiles_queued = 65536;
  uint32_t max_compiles_queued_per_domain = 16384;
  absl::Duration max_compile_time_per_domain = absl::InfiniteDuration();  // in CompileTimes::kWindow
  uint64_t max_artifact_bytes_per_domain = 0;  // 0: none but the store's

  // Durations.
  absl::Duration session_ttl = absl::Seconds(10);
  absl::Duration grace = absl::Seconds(2);
  absl::Duration max_grace = absl::Minutes(10);
  absl::Duration finish = absl::Seconds(10);       // in-flight work at a teardown
  absl::Duration fence_wait = absl::Seconds(1);    // for commands announced but not yet arrived
  absl::Duration kill_verify = absl::Seconds(5);   // then STUCK
  absl::Duration upload_stall = absl::Seconds(1);
  absl::Duration host_idle = absl::Seconds(60);
  absl::Duration host_crash_window = absl::Minutes(1);
  int host_crashes_to_hold = 3;
  // From a context's second death in the window to its next start; doubles with each further one.
  absl::Duration host_backoff = absl::Milliseconds(50);
  int compile_crashes_to_refuse = 2;
  absl::Duration refusal = absl::Minutes(10);
  absl::Duration shutdown_grace = absl::Seconds(2);

  // Device hosts.
  uint32_t max_queues_per_session = 16;
  uint64_t max_commands_in_flight = 65536;
  uint64_t max_device_bytes_per_session = 0;  // 0: the device's memory
  uint64_t max_device_bytes_per_domain = 0;   // on each device; 0: the device's memory
  uint64_t max_pinned_bytes_per_session = 1u << 30;
  uint32_t max_buffers_per_session = 65536;
  absl::Duration stalled_kernel = absl::ZeroDuration();  // 0: never end a host for it
};

struct Options {
  Limits limits;
  DomainPolicy domain_policy = DomainPolicy::kUid;
  bool may_change_uid = false;     // CAP_SETUID and CAP_SETGID are there
  bool trust_submitted_binaries = false;  // share pre-built binaries between domains
  bool share_artifacts = true;     // artifacts compiled from source, between domains
  std::string version;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_LIMITS_H_
