#include "daemon/workers/worker_pool.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"

namespace kcache::workers {
namespace {

int SlotCount(uint32_t configured) {
  if (configured > 0) return static_cast<int>(configured);
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

WorkerPool::WorkerPool(WorkerParts parts)
    : parts_(std::move(parts)), slots_(SlotCount(parts_.config->compile_workers)) {}

WorkerPool::~WorkerPool() { Stop(); }

std::shared_ptr<CompileWorker> WorkerPool::StartWorker(const BackendProgram& program) {
  auto worker = std::make_shared<CompileWorker>(&parts_, static_cast<CompileWorker::Owner*>(this),
                                                program.family);
  workers_.push_back(worker);
  worker->Start(program);
  return worker;
}

CompileWorker* WorkerPool::FindFree(const std::string& family) {
  CompileWorker* starting = nullptr;
  for (const auto& worker : workers_) {
    if (worker->family() != family || worker->has_job() || worker->is_last_job() ||
        worker->jobs_done() >= parts_.config->jobs_per_worker) {
      continue;
    }
    if (worker->state() == CompileWorker::State::kIdle) return worker.get();
    if (worker->state() == CompileWorker::State::kStarting) starting = worker.get();
  }
  return starting;
}

size_t WorkerPool::FreeWorkers(const std::string& family) const {
  return static_cast<size_t>(
      std::count_if(workers_.begin(), workers_.end(), [&](const auto& worker) {
        return worker->family() == family && !worker->has_job() && !worker->is_last_job() &&
               worker->state() != CompileWorker::State::kEnded &&
               worker->jobs_done() < parts_.config->jobs_per_worker;
      }));
}

core::JobId WorkerPool::Compile(const std::string& family,
                                std::shared_ptr<const v1::CompileRequest> request,
                                core::Function<void(core::CompileOutcome)> done) {
  const core::JobId job = next_job_++;
  const BackendProgram* program = parts_.programs->Find(family);
  if (program == nullptr || stopped_) {
    core::CompileOutcome outcome;
    outcome.end = core::CompileOutcome::End::kUnavailable;
    outcome.what = stopped_ ? "kcached is shutting down"
                            : absl::StrCat("there is no backend program for ", family);
    parts_.executor->Post([done = std::move(done), outcome = std::move(outcome)]() mutable {
      done(std::move(outcome));
    });
    return job;
  }
  CompileWorker* worker = FindFree(family);
  if (worker == nullptr) worker = StartWorker(*program).get();
  worker->Run(job, std::move(request), std::move(done));
  return job;
}

void WorkerPool::Cancel(core::JobId job) {
  for (const auto& worker : workers_) {
    if (worker->job() != job || job == 0) continue;
    worker->Abandon("its job was cancelled");
    return;
  }
}

void WorkerPool::Renew() {
  // What they have loaded may not be what is installed.
  const auto workers = workers_;
  for (const auto& worker : workers) {
    if (worker->has_job()) {
      worker->set_last_job();
    } else {
      worker->Abandon("the driver or the compiler has changed");
    }
  }
}

void WorkerPool::OnIdle(CompileWorker* worker) {
  if (worker->is_last_job() || worker->jobs_done() >= parts_.config->jobs_per_worker) {
    const std::string family = worker->family();
    worker->Abandon("it has done its jobs");
    if (stopped_ || FreeWorkers(family) > 0) return;
    if (const BackendProgram* program = parts_.programs->Find(family)) StartWorker(*program);
    return;
  }
  if (sweep_scheduled_) return;
  sweep_scheduled_ = true;
  parts_.executor->RunAfter(kIdleLimit, [this] { EndIdle(); });
}

void WorkerPool::EndIdle() {
  sweep_scheduled_ = false;
  if (stopped_) return;
  const absl::Duration now = parts_.clock->Now();
  bool any = false;
  const auto workers = workers_;  // Abandon removes from the original
  for (const auto& worker : workers) {
    if (worker->state() != CompileWorker::State::kIdle || worker->has_job()) continue;
    if (now - worker->idle_since() >= kIdleLimit) {
      worker->Abandon("idle");
    } else {
      any = true;
    }
  }
  if (!any) return;
  sweep_scheduled_ = true;
  parts_.executor->RunAfter(kIdleLimit, [this] { EndIdle(); });
}

void WorkerPool::OnEnded(CompileWorker* worker) {
  std::erase_if(workers_, [worker](const auto& one) { return one.get() == worker; });
}

void WorkerPool::Stop() {
  stopped_ = true;
  const auto workers = workers_;
  for (const auto& worker : workers) worker->Abandon("kcached is shutting down");
}

}  // namespace kcache::workers
