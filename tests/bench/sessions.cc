// What the daemon's memory grows by with 1,000 idle sessions, and with 100,000 leases of theirs; beside
// it, what a bare gRPC server's grows by with as many streams.
//
// Memory is what the process alone has written to (Private_Dirty and swap, of /proc/PID/smaps_rollup):
// not malloc's own account, so that fragments, and what malloc keeps after the rush of a thousand clients,
// count as well. Everything that one session needs is there before the first look.

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"
#include "kcache/v1/admin.grpc.pb.h"
#include "tests/bench/bare_fanout.h"
#include "tests/bench/bench.h"
#include "tests/bench/holders.h"
#include "tests/support/private_daemon.h"

namespace kcache::bench {
namespace {

constexpr size_t kProcesses = 8, kSessionsEach = 125, kLeasesEach = 100;
constexpr size_t kSessions = kProcesses * kSessionsEach, kLeases = kSessions * kLeasesEach;

double OwnBytes(pid_t pid) {
  std::ifstream rollup(absl::StrCat("/proc/", pid, "/smaps_rollup"));
  std::string word;
  double kilobytes = 0, value = 0;
  while (rollup >> word) {
    if ((word == "Private_Dirty:" || word == "Swap:") && rollup >> value) kilobytes += value;
  }
  return kilobytes * 1024;
}

// The smallest of some looks in a row: what is still busy has put its buffers away by then.
double SettledBytes(pid_t pid) {
  constexpr int kLooks = 20;
  double least = OwnBytes(pid);
  for (int i = 0; i < kLooks; ++i) {
    usleep(100'000);
    least = std::min(least, OwnBytes(pid));
  }
  return least;
}

absl::StatusOr<v1::StatusReply> StatusOf(const std::string& admin_socket) {
  auto stub = v1::Admin::NewStub(
      grpc::CreateChannel("unix:" + admin_socket, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  v1::StatusReply reply;
  const grpc::Status status = stub->Status(&context, {}, &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

}  // namespace

int Sessions(const std::string& program) {
  // Nobody is reaped, however slow a thousand clients are here.
  testing::PrivateDaemonOptions options;
  options.flags = {"--limits.session_ttl=10m"};
  auto daemon = testing::PrivateDaemon::Start(std::move(options));
  if (!daemon.ok()) return Failed("starting the daemon", daemon.status());
  auto bare = BareFanoutServer::Start(program);
  if (bare == nullptr) return Failed("bare server", absl::InternalError("did not start"));
  const Holders::Where where{program, (*daemon)->socket(), bare->socket()};

  auto first = Holders::Start(where, 1, 1, kLeasesEach);
  if (!first.ok()) return Failed("the first session", first.status());
  if (absl::Status held = (*first)->Acquire(); !held.ok()) return Failed("its leases", held);
  if (!bare->Round(1)) return Failed("bare server", absl::InternalError("ended"));
  const double daemon_before = SettledBytes((*daemon)->pid());
  const double bare_before = SettledBytes(bare->pid());

  auto holders = Holders::Start(where, kProcesses, kSessionsEach, kLeasesEach);
  if (!holders.ok()) return Failed("connecting", holders.status());
  if (!bare->Round(1 + kSessions)) return Failed("bare server", absl::InternalError("ended"));
  const double daemon_idle = SettledBytes((*daemon)->pid());
  const double bare_idle = SettledBytes(bare->pid());

  if (absl::Status held = (*holders)->Acquire(); !held.ok()) return Failed("acquiring", held);
  const double daemon_leased = SettledBytes((*daemon)->pid());
  auto status = StatusOf((*daemon)->admin_socket());
  if (!status.ok()) return Failed("asking for the status", status.status());
  if (status->sessions() != 1 + kSessions || status->leases() != kLeases + kLeasesEach) {
    return Failed("counting", absl::InternalError(absl::StrCat(status->sessions(), " sessions, ",
                                                               status->leases(), " leases")));
  }

  const double per_session = (daemon_idle - daemon_before) / kSessions;
  const double per_stream = (bare_idle - bare_before) / kSessions;
  const double per_lease = (daemon_leased - daemon_idle) / kLeases;
  constexpr double kMiB = 1 << 20;
  std::printf("%-34s %12s %12s\n", "own memory, MiB", "kcached", "bare server");
  std::printf("%-34s %12.1f %12.1f\n", "one session", daemon_before / kMiB, bare_before / kMiB);
  std::printf("%-34s %12.1f %12.1f\n", "1,000 more, idle", daemon_idle / kMiB, bare_idle / kMiB);
  std::printf("%-34s %12.1f\n", "with 100,000 leases", daemon_leased / kMiB);
  std::printf("%-34s %12.0f %12.0f\n", "bytes a session", per_session, per_stream);
  std::printf("%-34s %12.0f\n", "bytes a lease", per_lease);
  std::printf("summary: bytes_per_session=%.0f bytes_per_lease=%.0f\n", per_session, per_lease);
  return 0;
}

}  // namespace kcache::bench
