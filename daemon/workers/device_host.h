// One running device host as the core drives it, and its supervision.
//
//   process ──► OpenContext ──► SERVING ──► EXITED
//      │            │              │  heartbeat missing, load too slow, Kill ──► SIGKILL ──► EXITED
//      └────────────┴── any failure: SIGKILL, and `done` only once the exit is verified
//
// Threads: on the executor; gRPC's completions are brought there.
// Ownership: HostProcess is shared by its callbacks and lives until the process has exited. The core
// owns a HostHandle; when it lets go, the process is killed and the observer hears nothing more.

#ifndef KCACHE_DAEMON_WORKERS_DEVICE_HOST_H_
#define KCACHE_DAEMON_WORKERS_DEVICE_HOST_H_

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "daemon/core/dependencies.h"
#include "daemon/ops/config.h"
#include "daemon/workers/supervisor.h"
#include "kcache/v1/backend.grpc.pb.h"

namespace kcache::workers {

class HostWatch;

struct HostParts {
  const ops::Config* config = nullptr;
  const core::Clock* clock = nullptr;
  core::Executor* executor = nullptr;
  Supervisor* supervisor = nullptr;
};

class HostProcess : public std::enable_shared_from_this<HostProcess> {
 public:
  using Started = core::Function<void(absl::StatusOr<std::unique_ptr<core::DeviceHost>>)>;
  template <class Reply>
  using Done = core::Function<void(absl::StatusOr<Reply>)>;

  HostProcess(const HostParts* parts, core::HostSpec spec, core::HostObserver* observer,
              Started done);
  ~HostProcess();

  // The process is there, or could not be started. The socket leads to it.
  void OnStarted(absl::StatusOr<ChildPtr> child, ops::UniqueFd socket);
  void OnExited(const ExitStatus& status);
  // While it starts: it is not wanted any more.
  void Abandon();

  // What is removed when the process has exited.
  void set_paths(std::string directory, std::string execution_socket) {
    directory_ = std::move(directory);
    execution_socket_ = std::move(execution_socket);
  }

  pid_t pid() const { return child_->pid(); }
  std::string execution_target() const { return "unix:" + execution_socket_; }
  void Kill(std::string_view why);
  void Detach();  // the core lets go

  void Load(v1::LoadRequest request, Done<v1::LoadReply> done);
  void Fence(v1::FenceRequest request, Done<v1::FenceReply> done);
  void Unload(v1::UnloadRequest request, Done<v1::UnloadReply> done);
  void EndSession(v1::EndSessionRequest request, Done<v1::EndSessionReply> done);
  void Teardown(v1::TeardownRequest request, Done<v1::TeardownReply> done);

  // From the watch stream.
  void OnEvent(const v1::HostEvent& event);
  void OnWatchEnded();  // the stream's object is about to delete itself
  bool watched() const { return watch_ != nullptr; }

 private:
  // Sends one request. `send(stub, context, request, reply, callback)` starts it.
  template <class Reply, class Request, class Send>
  void Invoke(const char* what, Request request, absl::Duration limit, Send send,
              Done<Reply> done);

  void OnOpened(absl::StatusOr<v1::OpenContextReply> reply);
  void CheckHeartbeat();
  void FailStart(const absl::Status& why, std::string_view killed_for);

  const HostParts* const parts_;
  const core::HostSpec spec_;
  core::HostObserver* observer_;
  Started started_;              // until it was called
  absl::Status start_failure_;   // told when the exit is verified
  std::string directory_;
  std::string execution_socket_;
  ChildPtr child_;
  std::unique_ptr<v1::Device::Stub> stub_;
  HostWatch* watch_ = nullptr;   // deletes itself, after OnWatchEnded
  bool serving_ = false;
  bool exited_ = false;
  bool torn_down_ = false;
  absl::Duration last_heard_;
  absl::Duration last_check_;
  core::TimerId heartbeat_timer_ = 0;
  uint64_t next_call_ = 1;
  std::map<uint64_t, std::function<void(const absl::Status&)>> calls_;  // fails one
};

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_DEVICE_HOST_H_
