// The compile workers: at most `slots` jobs at once, each in a worker process of its family.
//
// A job takes an idle worker of its family or starts one. A worker ends after compile.jobs_per_worker
// jobs; then one fresh worker of that family is started ahead, so that the next job finds it waiting.
// Idle workers end after kIdleLimit. A worker's end fails its own job and nothing else; whether the
// job is tried again is the core's decision.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_WORKERS_WORKER_POOL_H_
#define KCACHE_DAEMON_WORKERS_WORKER_POOL_H_

#include <memory>
#include <string>
#include <vector>

#include "daemon/core/dependencies.h"
#include "daemon/workers/compile_worker.h"

namespace kcache::workers {

class WorkerPool : public core::CompileWorkers, private CompileWorker::Owner {
 public:
  static constexpr absl::Duration kIdleLimit = absl::Seconds(60);

  explicit WorkerPool(WorkerParts parts);
  ~WorkerPool() override;

  int slots() const override { return slots_; }
  core::JobId Compile(const std::string& family,
                      std::shared_ptr<const v1::CompileRequest> request,
                      core::Function<void(core::CompileOutcome)> done) override;
  void Cancel(core::JobId job) override;
  void Renew() override;

  // Ends every worker; their jobs are dropped. Then nothing is started any more.
  void Stop();

 private:
  void OnIdle(CompileWorker* worker) override;
  void OnEnded(CompileWorker* worker) override;

  std::shared_ptr<CompileWorker> StartWorker(const BackendProgram& program);
  CompileWorker* FindFree(const std::string& family);
  size_t FreeWorkers(const std::string& family) const;
  void EndIdle();

  const WorkerParts parts_;
  const int slots_;
  bool stopped_ = false;
  bool sweep_scheduled_ = false;
  core::JobId next_job_ = 1;
  std::vector<std::shared_ptr<CompileWorker>> workers_;
};

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_WORKER_POOL_H_
