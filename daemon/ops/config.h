// The daemon's configuration as its parts read it. What can be set, with type, default, range and
// help, is declared once, in config_options.cc.
//
// Threads: filled at start-up, constant afterwards.

#ifndef KCACHE_DAEMON_OPS_CONFIG_H_
#define KCACHE_DAEMON_OPS_CONFIG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "daemon/core/limits.h"

namespace kcache::ops {

struct Config {
  // Paths. Empty ones are derived (CompletePaths): sockets from the runtime directory.
  std::string runtime_dir;
  std::string socket;
  std::string admin_socket;
  std::string state_dir;
  uint32_t socket_mode = 0666;
  uint32_t admin_socket_mode = 0660;
  std::string admin_group = "kcache-admin";

  // Connections.
  uint32_t max_connections = 16384;
  uint32_t max_connections_per_uid = 8192;
  absl::Duration keepalive = absl::Seconds(60);

  // Logging.
  std::string log_level = "info";
  uint32_t event_history = 4096;
  std::string history_directory;  // empty: no history is recorded

  // Backend programs.
  std::vector<std::string> backend_directories;
  std::string launcher;  // empty: beside kcached, or in libexec
  absl::Duration probe_timeout = absl::Seconds(30);
  std::vector<std::string> backend_environment;  // names let through, besides the built-in ones

  // Compile workers.
  uint32_t compile_workers = 0;  // 0: one a processor
  uint32_t jobs_per_worker = 1;
  absl::Duration compile_wall = absl::Minutes(5);
  absl::Duration compile_cpu = absl::Minutes(5);
  uint64_t compile_memory = 4ull << 30;
  uint64_t compile_disk = 1ull << 30;
  uint32_t compile_processes = 0;  // 0: 256, and 4 for each processor
  uint32_t processes_per_compile = 64;
  uint32_t compile_nice = 5;
  std::string compile_user = "kcache-compile";

  // Device hosts.
  absl::Duration host_start_timeout = absl::Seconds(60);
  absl::Duration host_heartbeat = absl::Seconds(1);
  absl::Duration host_unresponsive = absl::Seconds(15);
  absl::Duration host_load_timeout = absl::Minutes(2);

  // Sandbox.
  std::string sandbox = "auto";  // auto, required, off

  // Artifacts in memory.
  uint64_t store_bytes = 2ull << 30;
  uint64_t store_count = 65536;

  core::Options core;
};

// Fills what was left empty. As root without a runtime directory: /run/kcached; as anybody else
// $XDG_RUNTIME_DIR/kcached, or /tmp/kcached-<uid>.
void CompletePaths(Config* config);

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_CONFIG_H_
