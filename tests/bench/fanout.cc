// What it takes to tell everybody who holds a lease that their device goes, and to hear from each that
// they have stopped using it; beside a bare gRPC server that tells as many streams and counts answers.
//
// "told to last ack" is the daemon's own measure (OperationResult.waited_us) and what the bare server
// measures, too. "destroy to last ack" adds the operator's way in, and the way out to him.

#include <grpcpp/grpcpp.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "contract/grpc_status.h"
#include "contract/strings.h"
#include "kcache/v1/admin.grpc.pb.h"
#include "tests/bench/bare_fanout.h"
#include "tests/bench/bench.h"
#include "tests/bench/holders.h"
#include "tests/bench/samples.h"
#include "tests/support/private_daemon.h"

namespace kcache::bench {
namespace {

constexpr size_t kLogTail = 4096;
constexpr uint64_t kAmpleGraceMs = 60000, kShortGraceMs = 200;

enum class Trouble { kNone, kKilled, kStopped };

struct Case {
  const char* name;
  size_t processes = 1;
  size_t sessions_each = 1;
  Trouble trouble = Trouble::kNone;
  int rounds = 200;
  int discarded = 20;
};

constexpr Case kCases[] = {
    {.name = "1 process", .processes = 1},
    {.name = "8 processes", .processes = 8},
    {.name = "64 processes", .processes = 64},
    {.name = "1000 sessions in 8 processes", .processes = 8, .sessions_each = 125},
    {.name = "8 processes, one killed", .processes = 8, .trouble = Trouble::kKilled},
    // Each round lasts a whole grace: fewer of them.
    {.name = "8 processes, one stopped",
     .processes = 8,
     .trouble = Trouble::kStopped,
     .rounds = 30,
     .discarded = 3},
};

struct Measured {
  Samples waited, bare, acked, whole;
  double ratio50() { return waited.p50() / bare.p50(); }
  double ratio99() { return waited.p99() / bare.p99(); }
};

class Benchmark {
 public:
  Benchmark(Holders::Where where, const std::string& admin_socket, BareFanoutServer* bare)
      : where_(std::move(where)),
        admin_(v1::Admin::NewStub(grpc::CreateChannel("unix:" + admin_socket,
                                                      grpc::InsecureChannelCredentials()))),
        bare_(bare) {}

  absl::StatusOr<Measured> Run(const Case& what) {
    auto started = Holders::Start(where_, what.processes, what.sessions_each, 1);
    if (!started.ok()) return started.status();
    holders_ = started->get();
    Measured measured;
    for (int round = 0; round < what.discarded + what.rounds; ++round) {
      absl::Status done = Round(what, round >= what.discarded, &measured);
      if (!done.ok()) {
        return absl::InternalError(
            absl::StrCat(what.name, ", round ", round, ": ", done.ToString()));
      }
    }
    return measured;
  }

 private:
  // Taking the leases, also again after the last round's destroy, is no part of any time.
  absl::Status Round(const Case& what, bool counted, Measured* measured) {
    absl::Status done = holders_->Acquire();
    if (!done.ok()) return done;
    const bool killed = what.trouble == Trouble::kKilled;
    if (what.trouble != Trouble::kStopped) {  // which a bare server would wait for for ever
      std::optional<double> took;
      if (killed) {
        StopOne();
        took = bare_->Round(holders_->sessions(), [this] { KillOne(); });
        done = holders_->Replace(0);
        if (done.ok()) done = holders_->Acquire();
        if (!done.ok()) return done;
      } else {
        took = bare_->Round(holders_->sessions());
      }
      if (!took) return absl::InternalError("the bare server ended");
      if (counted) measured->bare.Add(*took);
    }
    if (what.trouble != Trouble::kNone) StopOne();
    done = Destroy(what, counted, measured);
    if (what.trouble == Trouble::kStopped) kill(holders_->pid(0), SIGCONT);
    if (done.ok() && killed) done = holders_->Replace(0);
    return done;
  }

  absl::Status Destroy(const Case& what, bool counted, Measured* measured) {
    v1::AdminDestroyRequest request;
    request.mutable_device()->set_framework("Fake");
    request.set_grace_ms(what.trouble == Trouble::kStopped ? kShortGraceMs : kAmpleGraceMs);
    grpc::ClientContext context;
    v1::OperationUpdate update;
    Stopwatch watch;
    std::unique_ptr<grpc::ClientReader<v1::OperationUpdate>> updates =
        admin_->DestroyDevice(&context, request);
    bool killed = what.trouble != Trouble::kKilled;
    std::optional<double> acked;
    while (updates->Read(&update)) {
      if (!killed && update.phase() == "waiting") {
        killed = true;
        KillOne();
      }
      if (!acked && (update.phase() == "fencing" || update.phase() == "releasing" ||
                     update.phase() == "done")) {
        acked = watch.Microseconds();
      }
    }
    const double whole = watch.Microseconds();
    const grpc::Status status = updates->Finish();
    if (!status.ok()) return FromGrpc(status);
    // What is measured has happened: all were told and answered, but for the one in trouble.
    const v1::OperationResult& result = update.result();
    // (The one killed in the bare server's round may still be about to be noticed.)
    const size_t gone = what.trouble == Trouble::kKilled ? what.sessions_each : 0;
    const size_t unacked = what.trouble == Trouble::kStopped ? what.sessions_each : 0;
    if (!acked || !result.ok() || result.gone() < gone || result.gone() > 2 * gone ||
        result.unacked() != unacked ||
        result.acked() != holders_->sessions() - gone - unacked) {
      return absl::InternalError(absl::StrCat("the destroy went wrong: ", result.DebugString()));
    }
    if (!counted) return absl::OkStatus();
    measured->waited.Add(static_cast<double>(result.waited_us()));
    measured->acked.Add(*acked);
    measured->whole.Add(whole);
    return absl::OkStatus();
  }

  // So that it cannot answer before it is killed. It has stopped when this returns.
  void StopOne() const {
    kill(holders_->pid(0), SIGSTOP);
    waitpid(holders_->pid(0), nullptr, WUNTRACED);
  }
  void KillOne() const { kill(holders_->pid(0), SIGKILL); }

  const Holders::Where where_;
  const std::unique_ptr<v1::Admin::Stub> admin_;
  BareFanoutServer* const bare_;
  Holders* holders_ = nullptr;
};

void PrintHead() {
  std::printf("%-30s %6s %17s %17s %11s %17s %17s\n", "", "", "told to last ack", "bare stream",
              "ratio", "destroy to", "whole destroy");
  std::printf("%-30s %6s %17s %17s %11s %17s %17s\n", "ms", "rounds", "p50     p99", "p50     p99",
              "p50   p99", "last ack p50  p99", "p50     p99");
}

void Print(const Case& what, Measured* measured) {
  const auto pair = [](Samples* samples) {
    char text[32];
    std::snprintf(text, sizeof text, "%.2f %7.2f", samples->p50() / 1000, samples->p99() / 1000);
    return std::string(samples->size() == 0 ? "-" : text);
  };
  char ratio[32] = "-";
  if (measured->bare.size() != 0) {
    std::snprintf(ratio, sizeof ratio, "%.2f  %.2f", measured->ratio50(), measured->ratio99());
  }
  std::printf("%-30s %6zu %17s %17s %11s %17s %17s\n", what.name, measured->waited.size(),
              pair(&measured->waited).c_str(), pair(&measured->bare).c_str(), ratio,
              pair(&measured->acked).c_str(), pair(&measured->whole).c_str());
  std::fflush(stdout);
}

}  // namespace

int Fanout(const std::string& program) {
  auto daemon = testing::PrivateDaemon::Start({});
  if (!daemon.ok()) return Failed("starting the daemon", daemon.status());
  auto bare = BareFanoutServer::Start(program);
  if (bare == nullptr) return Failed("bare server", absl::InternalError("did not start"));
  Benchmark benchmark({program, (*daemon)->socket(), bare->socket()}, (*daemon)->admin_socket(),
                      bare.get());
  PrintHead();
  std::vector<Measured> all;
  for (const Case& what : kCases) {
    auto measured = benchmark.Run(what);
    if (!measured.ok()) {
      const std::string log = (*daemon)->Log();
      std::fprintf(stderr, "%s", log.substr(log.size() - std::min(log.size(), kLogTail)).c_str());
      return Failed("fanout", measured.status());
    }
    Print(what, &*measured);
    all.push_back(*std::move(measured));
  }
  std::printf("One stopped: nobody waits for it longer than the grace of %llu ms.\n",
              static_cast<unsigned long long>(kShortGraceMs));
  std::printf(
      "summary: p99_ms_1=%.2f p99_ms_8=%.2f p99_ms_64=%.2f p99_ms_1000s=%.2f ratio_64=%.3f "
      "ratio_1000=%.3f\n",
      all[0].acked.p99() / 1000, all[1].acked.p99() / 1000, all[2].acked.p99() / 1000,
      all[3].acked.p99() / 1000, all[2].ratio50(), all[3].ratio50());
  return 0;
}

}  // namespace kcache::bench
