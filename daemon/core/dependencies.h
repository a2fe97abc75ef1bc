// Everything the core takes from outside: time, random numbers, workers, device hosts, the artifact
// store, durable state, the event log. Injected, so that tests drive every interleaving by hand.
//
// Threads: the core runs on one Executor. Every call into the core, and every callback that an
// implementation of these interfaces makes, runs on that executor, one at a time.

#ifndef KCACHE_DAEMON_CORE_DEPENDENCIES_H_
#define KCACHE_DAEMON_CORE_DEPENDENCIES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "contract/history.h"
#include "contract/kernel_key.h"
#include "kcache/v1/backend.pb.h"
#include "kcache/v1/types.pb.h"

namespace kcache::core {

template <class Signature>
using Function = absl::AnyInvocable<Signature>;

// Time since boot, suspend included (CLOCK_BOOTTIME): never jumps with the wall clock.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual absl::Duration Now() const = 0;
};

using TimerId = uint64_t;  // 0: no timer

// Runs tasks one at a time, in order. Tasks never block.
class Executor {
 public:
  virtual ~Executor() = default;
  // Runs the task now if the executor is idle, on the calling thread; else queues it. Any thread.
  virtual void Run(Function<void()> task) = 0;
  // Queues the task behind what is queued now. Any thread.
  virtual void Post(Function<void()> task) = 0;
  // Runs the task after `delay`, unless cancelled. On the executor only.
  virtual TimerId RunAfter(absl::Duration delay, Function<void()> task) = 0;
  virtual void Cancel(TimerId timer) = 0;
};

// Cryptographically strong.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t Id() = 0;                 // never 0
  virtual std::string Bytes(size_t count) = 0;
};

// ---- compile workers ----------------------------------------------------------------------------

struct CompileOutcome {
  enum class End {
    kReplied,      // `reply` holds an artifact or the compiler's error
    kCrashed,      // the worker died by itself
    kTimedOut,     // wall or CPU limit
    kOutOfMemory,  // its own memory limit
    kOutputLimit,  // artifact or log larger than allowed
    kProcessLimit, // more processes than allowed
    kUnavailable,  // no such backend, or it could not be started
    kNotCounted,   // ended by node-wide memory pressure or an operator: never held against the key
  };
  End end = End::kUnavailable;
  std::string what;  // for people: "killed by SIGSEGV after 1.2 s; last words: …"
  v1::CompileReply reply;
};

using JobId = uint64_t;

class CompileWorkers {
 public:
  virtual ~CompileWorkers() = default;
  // How many jobs may run at once.
  virtual int slots() const = 0;
  // Starts a job in a worker of the family. `done` runs once, never inside this call.
  virtual JobId Compile(const std::string& family,
                        std::shared_ptr<const v1::CompileRequest> request,
                        Function<void(CompileOutcome)> done) = 0;
  // Ends the job; `done` is dropped.
  virtual void Cancel(JobId job) = 0;
  // Drivers or compilers have changed: workers that run end with the job they have, idle ones now.
  virtual void Renew() = 0;
};

// ---- device hosts -------------------------------------------------------------------------------

struct HostSpec {
  std::string family;
  v1::DeviceInfo device;
  uid_t uid = 0;
  gid_t gid = 0;
  std::string domain;  // for people: "uid:1000"
  v1::OpenContextRequest open;
};

struct HostExit {
  bool verified = false;   // the kernel reported the exit of the process (and of its cgroup)
  bool expected = false;   // exited after Teardown, status 0
  std::string what;        // "exited with 0", "killed by SIGSEGV"
  std::string last_words;  // the end of its stderr
};

class HostObserver {
 public:
  virtual ~HostObserver() = default;
  virtual void OnHeartbeat(const v1::HostUsage& usage) = 0;
  virtual void OnLabel(const v1::LabelChange& change) = 0;
  virtual void OnLost(const v1::ContextLost& lost) = 0;
  virtual void OnSecurityEvent(const v1::SecurityEvent& event) = 0;
  // The host answered no heartbeat for its limit; it has been killed and OnExited follows.
  virtual void OnUnresponsive(std::string_view why) = 0;
  // The last call, exactly once.
  virtual void OnExited(const HostExit& exit) = 0;
};

// One running device host. Requests answer in any order; after the host's exit every outstanding
// one answers Unavailable before OnExited. Destroying the object kills the process if it still runs.
class DeviceHost {
 public:
  virtual ~DeviceHost() = default;
  virtual pid_t pid() const = 0;
  virtual std::string execution_target() const = 0;  // "unix:/…"
  virtual void Load(v1::LoadRequest request,
                    Function<void(absl::StatusOr<v1::LoadReply>)> done) = 0;
  virtual void Fence(v1::FenceRequest request,
                     Function<void(absl::StatusOr<v1::FenceReply>)> done) = 0;
  virtual void Unload(v1::UnloadRequest request,
                      Function<void(absl::StatusOr<v1::UnloadReply>)> done) = 0;
  virtual void EndSession(v1::EndSessionRequest request,
                          Function<void(absl::StatusOr<v1::EndSessionReply>)> done) = 0;
  virtual void Teardown(v1::TeardownRequest request,
                        Function<void(absl::StatusOr<v1::TeardownReply>)> done) = 0;
  virtual void Kill(std::string_view why) = 0;  // SIGKILL
};

class HostLauncher {
 public:
  virtual ~HostLauncher() = default;
  // Spawns a host and opens its context. `done` runs once, never inside this call. `observer`
  // outlives the host; it hears nothing before `done` got a host.
  virtual void Start(HostSpec spec, HostObserver* observer,
                     Function<void(absl::StatusOr<std::unique_ptr<DeviceHost>>)> done) = 0;
  // The host that is starting for `observer` is not wanted any more: it is killed, and `done` says so
  // once its exit is verified. Without effect when there is none. `done` does not run inside this call.
  virtual void Abandon(HostObserver* observer) = 0;
};

struct OpenHolder {
  pid_t pid = 0;
  std::string name;
  uid_t uid = 0;
  std::string node;
  bool ours = false;
};

// What /proc says about who has device nodes open, and probes that are ours.
class DeviceCensus {
 public:
  virtual ~DeviceCensus() = default;
  virtual void Holders(std::vector<std::string> nodes,
                       Function<void(std::vector<OpenHolder>)> done) = 0;
};

// ---- probing ------------------------------------------------------------------------------------

class Prober {
 public:
  virtual ~Prober() = default;
  // Runs every backend program's probe. Families listed in `skip` (a card is down) are not run.
  virtual void Probe(std::vector<std::string> skip,
                     Function<void(std::vector<v1::ProbeReport>)> done) = 0;
};

// ---- artifacts ----------------------------------------------------------------------------------

// An artifact as the store keeps it, with what its key was made of.
struct StoredArtifact {
  Digest key;
  Digest program;
  std::string framework;
  std::string compiler_version;
  v1::Artifact artifact;
  uint64_t bytes = 0;
  std::string file;  // where the binary can be mapped, if it can
  std::string domain;  // for whom it was compiled: its quota; empty: not known
};

using ArtifactPtr = std::shared_ptr<const StoredArtifact>;

// Keyed by content. Bounded in bytes and count; what a caller holds through an ArtifactPtr stays
// alive. A durable store answers later, the one in memory inside the call.
class ArtifactStore {
 public:
  virtual ~ArtifactStore() = default;
  // nullptr: a miss. A damaged entry is a miss.
  virtual void Get(const Digest& key, Function<void(ArtifactPtr)> done) = 0;
  // Like Get for what is in memory already: the warm path.
  virtual ArtifactPtr Peek(const Digest& key) = 0;
  // Too large for the store: RESOURCE_EXHAUSTED; the artifact is usable all the same.
  virtual absl::Status Put(ArtifactPtr artifact) = 0;
  virtual void Remove(const Digest& key) = 0;
  virtual void Clear() = 0;
  virtual std::vector<ArtifactPtr> List() = 0;
  virtual uint64_t bytes() const = 0;
  virtual uint64_t count() const = 0;
};

// ---- durable state, events ----------------------------------------------------------------------

// Devices that stay down: written before draining starts, so that a restarted daemon does not reopen a
// card that is being reset.
struct DurableState {
  std::map<std::string, std::string> down;  // "CUDA:0" -> reason
};

class StateStore {
 public:
  virtual ~StateStore() = default;
  virtual DurableState Load() = 0;
  virtual absl::Status Save(const DurableState& state) = 0;  // durable when it returns
};

using EventFields = std::map<std::string, std::string>;

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void Emit(std::string_view kind, std::string message, EventFields fields) = 0;
  // For the audit log: an operation somebody asked for.
  virtual void Audit(std::string_view who, std::string_view what, std::string_view result) = 0;
};

struct Dependencies {
  Clock* clock = nullptr;
  Executor* executor = nullptr;
  Random* random = nullptr;
  CompileWorkers* workers = nullptr;
  HostLauncher* hosts = nullptr;
  DeviceCensus* census = nullptr;
  Prober* prober = nullptr;
  ArtifactStore* artifacts = nullptr;
  StateStore* state = nullptr;
  EventSink* events = nullptr;
  const History* history = nullptr;  // none: nothing is recorded
};

}  // namespace kcache::core

#endif  // KCACHE_DAEMON_CORE_DEPENDENCIES_H_
