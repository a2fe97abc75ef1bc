// Makes a guarded cache honour the events of a hub: what every cache over somebody else's handles
// must do, and what only differs between them when somebody forgets half of it.
//
// Both phases drop. BEFORE drops what is memoized; AFTER rejects a build that has begun in between
// and closes over a handle that is gone by now.
//
// Threads: as the hub and the cache. Ownership: the cache must outlive the returned registrations.

#ifndef KCACHE_CONTRACT_CACHE_LISTENERS_H_
#define KCACHE_CONTRACT_CACHE_LISTENERS_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "contract/guarded_cache.h"
#include "contract/invalidation_hub.h"
#include "kcache/v1/types.pb.h"

namespace kcache {

struct [[nodiscard]] CacheListeners {
  InvalidationHub::Registration on_device_destroy;
  InvalidationHub::Registration on_clear_all;
};

template <typename Key, typename Value>
CacheListeners ListenFor(GuardedCache<Key, Value>* cache, InvalidationHub* hub) {
  CacheListeners listeners;
  listeners.on_device_destroy = hub->OnDeviceDestroy([cache](const v1::Invalidate& event) {
    if (!event.family().empty() && event.has_index()) {
      return cache->EvictDevice(event.family(), event.index());
    }
    return cache->Clear(event.family());  // a record that covers more than one device
  });
  listeners.on_clear_all = hub->OnClearAll([cache](const v1::Invalidate& event) {
    return cache->Clear(event.family(),
                        event.has_index() ? std::optional<uint32_t>(event.index()) : std::nullopt);
  });
  return listeners;
}

}  // namespace kcache

#endif  // KCACHE_CONTRACT_CACHE_LISTENERS_H_
