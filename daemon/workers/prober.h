// Runs `kcache-backend-* --role=probe` in throw-away processes, all at once, each with a time limit.
// A probe that crashes, hangs or prints something else makes its family unavailable, with the reason.
//
// Threads: on the executor.

#ifndef KCACHE_DAEMON_WORKERS_PROBER_H_
#define KCACHE_DAEMON_WORKERS_PROBER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "daemon/core/dependencies.h"
#include "daemon/ops/config.h"
#include "daemon/ops/file_watch.h"
#include "daemon/workers/backend_programs.h"
#include "daemon/workers/isolation.h"
#include "daemon/workers/supervisor.h"

namespace kcache::workers {

class BackendProber : public core::Prober {
 public:
  struct Parts {
    const ops::Config* config = nullptr;
    core::Executor* executor = nullptr;
    core::EventSink* events = nullptr;
    Supervisor* supervisor = nullptr;
    BackendPrograms* programs = nullptr;
    const Isolation* isolation = nullptr;
    std::string work_directory;  // where private directories are made
    ops::FileWatch* files = nullptr;  // told what reports depend on; none: nobody watches
  };
  explicit BackendProber(Parts parts) : parts_(std::move(parts)) {}

  void Probe(std::vector<std::string> skip,
             core::Function<void(std::vector<v1::ProbeReport>)> done) override;

 private:
  struct Round;

  void Run(const std::shared_ptr<Round>& round, const BackendProgram& program);
  void Finish(const std::shared_ptr<Round>& round, const std::string& path,
              v1::ProbeReport report);

  void WatchFiles();

  const Parts parts_;
  std::map<std::string, std::vector<std::string>> depends_on_;  // by program, as it last said
};

// What a finished probe amounts to: its report, or an unavailable family with the reason.
v1::ProbeReport ReportOf(const std::string& family, const ExitStatus& status, bool timed_out,
                         absl::Duration limit);

}  // namespace kcache::workers

#endif  // KCACHE_DAEMON_WORKERS_PROBER_H_
