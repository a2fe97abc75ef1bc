// Who has a device node open, as /proc tells: every process of the machine that we may look into.
//
// Threads: Holders on the executor; the scan, which takes milliseconds to seconds, on a thread of its
// own; answers on the executor. Queued scans are dropped at destruction.

#ifndef KCACHE_DAEMON_OPS_DEVICE_CENSUS_H_
#define KCACHE_DAEMON_OPS_DEVICE_CENSUS_H_

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "contract/mutex.h"
#include "daemon/core/dependencies.h"

namespace kcache::ops {

// Every (process, node) pair under `proc`; `self` and its descendants are ours. Any thread.
std::vector<core::OpenHolder> FindHolders(const std::string& proc, pid_t self,
                                          const std::vector<std::string>& nodes);

class ProcCensus : public core::DeviceCensus {
 public:
  explicit ProcCensus(core::Executor* executor);
  ~ProcCensus() override;

  void Holders(std::vector<std::string> nodes,
               core::Function<void(std::vector<core::OpenHolder>)> done) override;

 private:
  using Request =
      std::pair<std::vector<std::string>, core::Function<void(std::vector<core::OpenHolder>)>>;
  void Loop();

  core::Executor* const executor_;
  Mutex mutex_;
  CondVar wake_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_DEVICE_CENSUS_H_
