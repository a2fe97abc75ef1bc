// What a warm acquire costs beside a bare gRPC echo, what a memoized one costs, and a batch.

#include <cstdio>
#include <vector>

#include "tests/bench/bench.h"
#include "tests/bench/echo.h"
#include "tests/bench/samples.h"
#include "tests/support/private_daemon.h"

namespace kcache::bench {
namespace {

constexpr int kRounds = 300, kPerRound = 100, kDiscardedRounds = 20;
constexpr int kBatch = 256;
// What an Acquire and a Grant of one of these kernels take on the wire.
constexpr size_t kRequestBytes = 60, kReplyBytes = 130;

}  // namespace

int Acquire(const std::string& program) {
  auto daemon = testing::PrivateDaemon::Start({});
  if (!daemon.ok()) return Failed("starting the daemon", daemon.status());
  auto echo_server = EchoServer::Start(program, kReplyBytes);
  if (echo_server == nullptr) return Failed("echo server", absl::InternalError("did not start"));
  auto echo = EchoClient::Connect(echo_server->socket());

  // Without a memo, each acquire is a round trip to the daemon, which has the kernel loaded.
  auto client = Client::Connect({.socket = (*daemon)->socket(), .name = "bench", .memo_capacity = 0});
  auto memoizing = Client::Connect({.socket = (*daemon)->socket(), .name = "bench-memo"});
  if (!client.ok()) return Failed("connecting", client.status());
  if (!memoizing.ok()) return Failed("connecting", memoizing.status());
  auto device = PickDevice(client->get());
  if (!device) return Failed("devices", absl::NotFoundError("there is none"));
  const Program kernels = EmptyKernels(*device, kBatch);
  const KernelRequest request{.program = kernels, .entry = "k0", .device = *device};
  std::vector<KernelRequest> batch;
  for (int i = 0; i < kBatch; ++i) {
    batch.push_back({.program = kernels, .entry = "k" + std::to_string(i), .device = *device});
  }
  // Everything loaded, and this client's leases given back.
  for (auto& kernel : (*client)->AcquireBatch(batch)) {
    if (!kernel.ok()) return Failed("acquiring", kernel.status());
  }

  Samples warm, bare, memo, batches;
  for (int round = 0; round < kRounds; ++round) {
    const bool counted = round >= kDiscardedRounds;
    for (int i = 0; i < kPerRound; ++i) {
      Stopwatch watch;
      if (!echo->RoundTrip(kRequestBytes)) return Failed("echo", absl::InternalError("broke"));
      if (counted) bare.Add(watch.Microseconds());
    }
    std::vector<Kernel> held;  // given back after the round: a release is not part of an acquire
    for (int i = 0; i < kPerRound; ++i) {
      Stopwatch watch;
      auto kernel = (*client)->Acquire(request);
      const double took = watch.Microseconds();
      if (!kernel.ok()) return Failed("acquiring", kernel.status());
      if (kernel->origin() != Origin::kWarm) {
        return Failed("acquiring", absl::InternalError("was not warm"));
      }
      if (counted) warm.Add(took);
      held.push_back(*std::move(kernel));
    }
    held.clear();
    Stopwatch watch;
    auto all = (*client)->AcquireBatch(batch);
    const double took = watch.Microseconds();
    for (auto& kernel : all) {
      if (!kernel.ok()) return Failed("acquiring a batch", kernel.status());
    }
    if (counted) batches.Add(took);
  }
  if (auto first = (*memoizing)->Acquire(request); !first.ok()) {
    return Failed("acquiring", first.status());
  }
  constexpr int kMemoized = 10000;
  for (int round = 0; round < 50; ++round) {
    Stopwatch watch;
    for (int i = 0; i < kMemoized; ++i) {
      if (!(*memoizing)->Acquire(request).ok()) return Failed("memo", absl::InternalError("missed"));
    }
    memo.Add(watch.Microseconds() * 1000 / kMemoized);
  }

  const double ratio = warm.p50() / bare.p50();
  std::printf("%-34s %10s %10s\n", "", "p50", "p99");
  std::printf("%-34s %7.1f us %7.1f us\n", "bare gRPC echo", bare.p50(), bare.p99());
  std::printf("%-34s %7.1f us %7.1f us   %.2f x the echo\n", "warm acquire", warm.p50(), warm.p99(),
              ratio);
  std::printf("%-34s %7.1f ns %7.1f ns\n", "memoized acquire", memo.p50(), memo.p99());
  std::printf("%-34s %7.2f ms %7.2f ms\n", "256 warm acquires in one round trip",
              batches.p50() / 1000, batches.p99() / 1000);
  std::printf("summary: warm_ratio=%.3f memo_ns=%.1f batch256_ms=%.3f\n", ratio, memo.p50(),
              batches.p50() / 1000);
  return 0;
}

}  // namespace kcache::bench
