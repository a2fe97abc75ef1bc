// Runs a plan: starts the daemon and the clients, takes each step when its time comes, ends everything, and
// records all that it does, so that validators know what was whose doing.
//
// Threads: one; it is the parent of all processes and must stay until their end.

#ifndef KCACHE_TESTS_CHAOS_CONTROLLER_H_
#define KCACHE_TESTS_CHAOS_CONTROLLER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "contract/history.h"
#include "kcache/device.h"
#include "tests/chaos/child.h"
#include "tests/chaos/operator.h"
#include "tests/chaos/plan.h"
#include "tests/support/private_daemon.h"

namespace kcache::chaos {

struct ControllerOptions {
  PlanOptions plan;
  std::vector<DeviceId> devices;
  std::string histories;  // directory
  // The programs under test: the usual ones, or broken ones.
  std::string daemon;
  std::vector<std::string> backend_directories;
};

class Controller {
 public:
  explicit Controller(ControllerOptions options);

  // Fails only where the run itself could not be made; what went wrong in it is recorded.
  absl::Status Run();

 private:
  struct Slot {
    std::unique_ptr<Child> child;
    uint32_t life = 0;
    bool stopped = false;
  };

  absl::Status StartDaemon();
  absl::Status RestartDaemon();
  absl::Status CheckDaemon();
  absl::Status StartClient(uint32_t index);
  absl::Status ReapClients();
  absl::Status Take(const Step& step);
  void StartRude(const Step& step);
  void EndRude(uint32_t target);
  void SignalHost(uint32_t target, int number);
  std::vector<pid_t> Hosts() const;
  void ContinueAll();
  void EndClients();
  void EndDaemon();

  const ControllerOptions options_;
  std::unique_ptr<History> history_;
  std::unique_ptr<testing::PrivateDaemon> daemon_;
  std::unique_ptr<Operator> operator_;
  std::vector<Slot> clients_;
  std::map<uint32_t, std::unique_ptr<Child>> rude_;  // by the plan's target
  std::map<uint32_t, pid_t> stopped_hosts_;
  uint32_t rude_lives_ = 0;
  bool daemon_stopped_ = false;
};

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_CONTROLLER_H_
