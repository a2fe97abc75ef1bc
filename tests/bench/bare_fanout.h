// The baseline of an invalidation: a bare gRPC server that writes one message to every open stream and
// counts the answers, with the same callback API, over the same kind of accepted unix socket, with
// messages of the same content, and no protocol: no sessions, no leases, no order, no deadline.
//
// Threads: BareFanoutServer and BareStreams by one thread at a time.

#ifndef KCACHE_TESTS_BENCH_BARE_FANOUT_H_
#define KCACHE_TESTS_BENCH_BARE_FANOUT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "tests/bench/child.h"

namespace kcache::bench {

// Serves `socket` until its standard input ends. A line there, "round" or "tell", and the number of streams
// to wait for, starts a round; the answer is a line with its microseconds. "tell" first writes a line as
// soon as all are told.
int RunBareFanoutServer(const std::string& socket);

class BareFanoutServer {
 public:
  // Starts `program fanout-server`, and waits until it accepts.
  static std::unique_ptr<BareFanoutServer> Start(const std::string& program);
  const std::string& socket() const { return socket_; }
  pid_t pid() const { return child_->pid(); }

  // Waits until `streams` are open, writes to all of them, and answers the microseconds until each has
  // answered or ended. `told` runs in between, once everybody has been written to.
  std::optional<double> Round(size_t streams, const std::function<void()>& told = nullptr);

 private:
  TemporaryFolder folder_;
  std::string socket_;
  std::unique_ptr<Child> child_;
};

// `count` streams to that server, each on a connection of its own, that answer each message.
class BareStreams {
 public:
  virtual ~BareStreams() = default;
  static std::unique_ptr<BareStreams> Open(const std::string& socket, size_t count);
};

}  // namespace kcache::bench

#endif  // KCACHE_TESTS_BENCH_BARE_FANOUT_H_
