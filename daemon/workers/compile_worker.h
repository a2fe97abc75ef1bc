// One compile worker: a process of `kcache-backend-* --role=compile` that takes jobs one at a time.
//
//   STARTING ──► IDLE ◄──► BUSY
//       │          │         │        any state ──► ENDED (killed, crashed, retired)
//
// Threads: on the executor. Ownership: the pool holds it by shared_ptr until OnEnded; callbacks that
// arrive later find it ENDED and do nothing.

#ifndef KCACHE_DAEMON_WORKERS_COMPILE_WORKER_H_
#define KCACHE_DAEMON_WORKERS_COMPILE_WORKER_H_

#include <memory>
#include <string>

#include "daemon/core/dependencies.h"
#include "daemon/ops/config.h"
#include "daemon/workers/backend_programs.h"
#include "daemon/workers/isolation.h"
#include "daemon/workers/supervisor.h"
#include "kcache/v1/backend.grpc.pb.h"

namespace kcache::workers {

// What every worker of a pool shares.
struct WorkerParts {
  const ops::Config* config = nullptr;
  const core::Clock* clock = nullptr;
  core::Executor* executor = nullptr;
  core::EventSink* events = nullptr;
  Supervisor* supervisor = nullptr;
  BackendPrograms* programs = nullptr;
  const Isolation* isolation = nullptr;
  std::string work_directory;
};

class CompileWorker : public std::enable_shared_from_this<CompileWorker> {
 public:
  enum class State { kStarting, kIdle, kBusy, kEnded };

  class Owner {
   public:
    virtual ~Owner() = default;
    // The job is over and the worker idle again. The outcome was delivered before.
    virtual void OnIdle(CompileWorker* worker) = 0;
    // The last call. A job that it had was answered before.
    virtual void OnEnded(CompileWorker* worker) = 0;
  };

  CompileWorker(const WorkerParts* parts, Owner* owner, std::string family)
      : parts_(parts), owner_(owner), family_(std::move(family)) {}
  ~CompileWorker();

  void Start(const BackendProgram& program);

  // Takes one job: now, or as soon as it has started. Only when it has none.
  void Run(core::JobId job, std::shared_ptr<const v1::CompileRequest> request,
           core::Function<void(core::CompileOutcome)> done);

  // Ends the process; a job that it has is dropped unanswered.
  void Abandon(std::string_view why);

  const std::string& family() const { return family_; }
  State state() const { return state_; }
  bool has_job() const { return job_ != 0; }
  core::JobId job() const { return job_; }
  uint32_t jobs_done() const { return jobs_done_; }
  // It takes no further job.
  bool is_last_job() const { return is_last_job_; }
  void set_last_job() { is_last_job_ = true; }
  absl::Duration idle_since() const { return idle_since_; }

 private:
  struct Call;

  void Launch(const BackendProgram& program);
  void OnStarted(absl::StatusOr<ChildPtr> child);
  void OnExited(const ExitStatus& status);
  void Begin();
  void OnReply(core::JobId job, const std::shared_ptr<Call>& call);
  void Answer(core::CompileOutcome outcome);
  void End(core::CompileOutcome outcome_of_job);
  core::CompileOutcome OutcomeOfExit(const ExitStatus& status) const;
  std::string Took() const;

  const WorkerParts* const parts_;
  Owner* const owner_;
  const std::string family_;
  State state_ = State::kStarting;
  std::string directory_;
  ops::UniqueFd socket_;
  ChildPtr child_;
  std::unique_ptr<v1::Compile::Stub> stub_;
  uint32_t jobs_done_ = 0;
  bool is_last_job_ = false;
  absl::Duration idle_since_;

  core::JobId job_ = 0;
  std::shared_ptr<const v1::CompileRequest> request_;
  core::Function<void(core::CompileOutcome)> done_;
  std::shared_ptr<Call> call_;
  core::TimerId wall_timer_ = 0;
  bool timed_out_ = false;
  absl::Duration begun_;
};

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_COMPILE_WORKER_H_
