// A unix socket that this daemon serves alone: made with owner and mode, protected by a lock file, and
// removed at the end. A socket that a crashed daemon left behind is replaced.
//
// Threads: one at a time.

#ifndef KCACHE_DAEMON_RPC_LISTENING_SOCKET_H_
#define KCACHE_DAEMON_RPC_LISTENING_SOCKET_H_

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"
#include "daemon/ops/unique_fd.h"

namespace kcache::rpc {

struct SocketOptions {
  std::string path;
  mode_t mode = 0666;
  std::string group;  // empty: the daemon's own; unknown groups are an error
};

bool GroupExists(const std::string& group);

class ListeningSocket {
 public:
  // AlreadyExists: "another kcached (pid N) serves PATH". Other failures name path and reason.
  static absl::StatusOr<ListeningSocket> Open(const SocketOptions& options);
  ListeningSocket(ListeningSocket&&) = default;
  ListeningSocket& operator=(ListeningSocket&&) = default;
  ~ListeningSocket();

  int fd() const { return socket_.get(); }
  const std::string& path() const { return path_; }

 private:
  ListeningSocket(std::string path, ops::UniqueFd lock, ops::UniqueFd socket)
      : path_(std::move(path)), lock_(std::move(lock)), socket_(std::move(socket)) {}

  std::string path_;
  ops::UniqueFd lock_;
  ops::UniqueFd socket_;
};

}  // namespace kcache::rpc

#endif  // KCACHE_DAEMON_RPC_LISTENING_SOCKET_H_
