// The corpus through the daemon and the client library: compiled there, and on a machine with a
// CUDA device also launched and compared.
//
// Threads: one.
#ifndef KCACHE_TESTS_CORPUS_CUB_DAEMON_RUN_H_
#define KCACHE_TESTS_CORPUS_CUB_DAEMON_RUN_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kcache/client.h"
#include "programs.h"

namespace kcache::corpus {

class DaemonRun {
 public:
  // Connects to the daemon at $KCACHE_SOCKET.
  static absl::StatusOr<std::unique_ptr<DaemonRun>> Connect(const std::string& architecture);

  // Whether programs are launched too.
  bool has_device() const { return has_device_; }
  absl::Status Run(const CubProgram& program);

 private:
  DaemonRun(std::shared_ptr<Client> client, std::string architecture, bool has_device)
      : client_(std::move(client)),
        architecture_(std::move(architecture)),
        has_device_(has_device) {}

  absl::Status Launch(const CubProgram& program, const Program& compiled);

  const std::shared_ptr<Client> client_;
  const std::string architecture_;
  const bool has_device_;
};

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_CUB_DAEMON_RUN_H_
