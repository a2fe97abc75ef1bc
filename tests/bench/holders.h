// Client processes that hold leases: each has some sessions through the client library, and beside each
// of them a bare stream, so that the protocol and the baseline wait for the same processes.
//
// Threads: one at a time.

#ifndef KCACHE_TESTS_BENCH_HOLDERS_H_
#define KCACHE_TESTS_BENCH_HOLDERS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tests/bench/child.h"

namespace kcache::bench {

// A holder's main program: connects `sessions` clients and streams, says "ready", and then takes `leases`
// leases for each session whenever it is asked to: on as many kernels of one program, on Fake:0.
int RunHolder(const std::string& daemon_socket, const std::string& bare_socket, size_t sessions,
              size_t leases);

class Holders {
 public:
  struct Where {
    std::string program;  // this one
    std::string daemon_socket;
    std::string bare_socket;
  };
  // `bare_socket` empty: no bare streams.
  static absl::StatusOr<std::unique_ptr<Holders>> Start(Where where, size_t processes,
                                                        size_t sessions_each, size_t leases_each);

  size_t sessions() const { return processes_.size() * sessions_each_; }
  // Every session has its leases afterwards.
  absl::Status Acquire();
  pid_t pid(size_t process) const { return processes_[process]->pid(); }
  // Kills the process if it still runs, and starts another one in its place.
  absl::Status Replace(size_t process);

 private:
  Holders(Where where, size_t sessions_each, size_t leases_each)
      : where_(std::move(where)), sessions_each_(sessions_each), leases_each_(leases_each) {}
  std::unique_ptr<Child> StartOne() const;

  const Where where_;
  const size_t sessions_each_;
  const size_t leases_each_;  // of a session
  std::vector<std::unique_ptr<Child>> processes_;
};

}  // namespace kcache::bench

#endif  // KCACHE_TESTS_BENCH_HOLDERS_H_
