#include "daemon/core/trust_domain.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace kcache::core {

TrustDomain DomainOf(const Peer& peer, uint64_t session_id, DomainPolicy policy) {
  TrustDomain domain{.name = "", .uid = peer.uid, .gid = peer.gid};
  switch (policy) {
    case DomainPolicy::kUid:
      domain.name = absl::StrCat("uid:", peer.uid);
      // Many containers share uid 0: their uid alone says nothing.
      if (!peer.container.empty()) absl::StrAppend(&domain.name, "/", peer.container);
      break;
    case DomainPolicy::kGroup:
      domain.name = absl::StrCat("gid:", peer.gid);
      break;
    case DomainPolicy::kSession:
      domain.name = absl::StrCat("session:", absl::Hex(session_id, absl::kZeroPad16));
      break;
    case DomainPolicy::kNode:
      // One host serves everybody, so it may run as nobody but the daemon's own user.
      domain = {.name = "node", .uid = geteuid(), .gid = getegid()};
      break;
  }
  return domain;
}

}  // namespace kcache::core
