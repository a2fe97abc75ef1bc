// The operators' side: what the daemon says about itself, and its events as they come.
//
// Threads: any. Ownership: follows events on a thread of its own until it is destroyed.

#ifndef KCACHE_TESTS_CHAOS_DOMAINS_WATCHER_H_
#define KCACHE_TESTS_CHAOS_DOMAINS_WATCHER_H_

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/mutex.h"
#include "kcache/v1/admin.grpc.pb.h"

namespace kcache::domains {

class Watcher {
 public:
  static constexpr std::chrono::seconds kPatience{60};

  explicit Watcher(const std::string& admin_socket);
  ~Watcher();

  absl::StatusOr<v1::StatusReply> Status();
  absl::StatusOr<v1::SessionList> Sessions();
  absl::StatusOr<v1::AdminDeviceList> Devices();
  // The trust domain of the process with this pid, as its session has it.
  absl::StatusOr<std::string> DomainOf(pid_t pid);
  // The process that the daemon started for a domain's context on a device: the launcher of its host.
  absl::StatusOr<pid_t> HostOf(const std::string& domain, const std::string& framework,
                               uint32_t index);

  // How often a kind of event has been heard.
  uint64_t Heard(const std::string& kind);
  // Waits until it has been heard that often.
  absl::Status AwaitEvents(const std::string& kind, uint64_t count);
  // The last message of that kind.
  std::string LastOf(const std::string& kind);

 private:
  void Follow();

  std::unique_ptr<v1::Admin::Stub> stub_;
  grpc::ClientContext events_context_;
  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, uint64_t> heard_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> last_ ABSL_GUARDED_BY(mutex_);
  std::thread follower_;
};

}  // namespace kcache::domains

#endif  // KCACHE_TESTS_CHAOS_DOMAINS_WATCHER_H_
