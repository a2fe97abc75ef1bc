// The baseline of everything that talks: a bare gRPC bidirectional echo in a process of its own, with
// the same callback API, over the same kind of accepted unix socket, and no protocol.
//
// Threads: EchoClient by one thread at a time.

#ifndef KCACHE_TESTS_BENCH_ECHO_H_
#define KCACHE_TESTS_BENCH_ECHO_H_

#include <memory>
#include <string>

#include "tests/bench/child.h"

namespace kcache::bench {

// Serves until it is killed: answers each message with one of `reply_bytes`.
int RunEchoServer(const std::string& socket, size_t reply_bytes);

class EchoServer {
 public:
  // Starts `program echo-server`, and waits until it accepts.
  static std::unique_ptr<EchoServer> Start(const std::string& program, size_t reply_bytes);
  const std::string& socket() const { return socket_; }

 private:
  EchoServer() : socket_(folder_.path() + "/echo.sock") {}
  const TemporaryFolder folder_;
  const std::string socket_;
  std::unique_ptr<Child> child_;  // last: ends before its socket goes
};

class EchoClient {
 public:
  virtual ~EchoClient() = default;
  static std::unique_ptr<EchoClient> Connect(const std::string& socket);
  // Sends one message of `request_bytes` and waits for its answer. False: the stream broke.
  virtual bool RoundTrip(size_t request_bytes) = 0;
};

}  // namespace kcache::bench

#endif  // KCACHE_TESTS_BENCH_ECHO_H_
