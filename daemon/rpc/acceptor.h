// Accepts connections on one listening socket, learns who they are, and hands them to a gRPC server.
// Watches the processes behind them: when one exits, the core is told.
//
// Threads: the epoll loop's. Stop() from any.

#ifndef KCACHE_DAEMON_RPC_ACCEPTOR_H_
#define KCACHE_DAEMON_RPC_ACCEPTOR_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/core/service.h"
#include "daemon/ops/epoll_loop.h"
#include "daemon/ops/unique_fd.h"
#include "daemon/rpc/peer_table.h"

namespace kcache::rpc {

class Acceptor {
 public:
  // `on_exit` runs on the loop's thread. The server and the table outlive the acceptor.
  Acceptor(ops::EpollLoop* loop, grpc::Server* server, PeerTable* peers,
           std::function<void(const core::Peer&)> on_exit)
      : loop_(loop), server_(server), peers_(peers), on_exit_(std::move(on_exit)) {}
  ~Acceptor() { Stop(); }

  absl::Status Start(int listening_fd);
  void Stop();

 private:
  struct Watched {
    core::Peer peer;
    ops::UniqueFd pidfd;
    ops::EpollLoop::WatchId watch = 0;
  };
  void Accept();
  void Take(int accepted);
  void WatchProcess(const core::Peer& peer);
  void OnExit(pid_t pid);

  ops::EpollLoop* const loop_;
  grpc::Server* const server_;
  PeerTable* const peers_;
  const std::function<void(const core::Peer&)> on_exit_;
  int listening_fd_ = -1;
  ops::EpollLoop::WatchId watch_ = 0;
  int next_fd_ = 0;
  std::map<pid_t, Watched> processes_;  // the loop's thread alone
};

// The container a process runs in, from its cgroup; empty: none, or it cannot be told.
std::string ContainerOf(pid_t pid);

}  // namespace kcache::rpc

#endif  // KCACHE_DAEMON_RPC_ACCEPTOR_H_
