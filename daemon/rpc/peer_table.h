// Who is behind each accepted connection. gRPC names a connection by its descriptor ("fd:1007"); an
// accepted descriptor is moved to a number that was not in use lately, so a name does not come to mean
// another peer while somebody still speaks of the first.
//
// Threads: any.

#ifndef KCACHE_DAEMON_RPC_PEER_TABLE_H_
#define KCACHE_DAEMON_RPC_PEER_TABLE_H_

#include <cstdlib>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "contract/error_reason.h"
#include "contract/mutex.h"
#include "daemon/core/service.h"

namespace kcache::rpc {

class PeerTable {
 public:
  // A new connection under this number; replaces what the number meant before.
  void Add(int fd, const core::Peer& peer) {
    MutexLock lock(&mutex_);
    peers_[fd] = peer;
  }

  // By ServerContext::peer(). PERMISSION_DENIED for a connection that was not accepted here.
  absl::StatusOr<core::Peer> Find(const std::string& name) const {
    if (name.starts_with("fd:")) {
      MutexLock lock(&mutex_);
      auto found = peers_.find(std::atoi(name.c_str() + 3));
      if (found != peers_.end()) return found->second;
    }
    return MakeError(v1::PERMISSION_DENIED, "the peer of this connection (" + name + ") is not known");
  }

  void Forget(pid_t pid) {
    MutexLock lock(&mutex_);
    std::erase_if(peers_, [pid](const auto& entry) { return entry.second.pid == pid; });
  }

  size_t size() const {
    MutexLock lock(&mutex_);
    return peers_.size();
  }

 private:
  mutable Mutex mutex_;
  std::map<int, core::Peer> peers_ ABSL_GUARDED_BY(mutex_);  // at most one a descriptor number
};

}  // namespace kcache::rpc

#endif  // KCACHE_DAEMON_RPC_PEER_TABLE_H_
