// Trust domains: who may share an address space, buffers and leases on a device (G14).
//
// Threads: pure functions over values; any thread.

#ifndef KCACHE_DAEMON_CORE_TRUST_DOMAIN_H_
#define KCACHE_DAEMON_CORE_TRUST_DOMAIN_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "daemon/core/limits.h"
#include "daemon/core/service.h"

namespace kcache::core {

struct TrustDomain {
  std::string name;  // "uid:1000", "uid:0/3f2a…" in a container, "gid:100", "session:…", "node"
  uid_t uid = 0;     // whom a host of this domain runs as
  gid_t gid = 0;
};

TrustDomain DomainOf(const Peer& peer, uint64_t session_id, DomainPolicy policy);

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_TRUST_DOMAIN_H_
