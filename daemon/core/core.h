// The parts of the core and how they find each other. Wiring only: each part has its own header.

#ifndef KCACHE_DAEMON_CORE_CORE_H_
#define KCACHE_DAEMON_CORE_CORE_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "daemon/core/build_queue.h"
#include "daemon/core/dependencies.h"
#include "daemon/core/device_registry.h"
#include "daemon/core/limits.h"
#include "daemon/core/session_table.h"
#include "daemon/core/source_cache.h"

namespace kcache::core {

struct Counters {
  uint64_t warm_grants = 0;
  uint64_t loaded_grants = 0;
  uint64_t compiled_grants = 0;
  uint64_t joined_grants = 0;
  uint64_t host_crashes = 0;
};

struct Core {
  Core(Options the_options, Dependencies the_deps)
      : options(std::move(the_options)),
        deps(the_deps),
        instance(the_deps.random->Bytes(16)),
        sources(&options.limits),
        builds(&options.limits, &deps),
        sessions(&options, &deps) {}
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  const Options options;
  const Dependencies deps;
  const std::string instance;
  // Orders all invalidations; every Invalidate that is sent to a session has a larger one than the
  // last.
  uint64_t revision = 1;
  bool serving = false;
  bool shutting_down = false;

  SourceCache sources;
  BuildQueue builds;
  SessionTable sessions;
  DeviceRegistry devices;
  HandleCounters handle_counters;
  Counters counters;
  DurableState durable;
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_CORE_H_
