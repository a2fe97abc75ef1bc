// The operator of a chaos run: asks for operations on the admin socket, several at a time, and records how
// each ended.
//
// Threads: Start by one; each operation runs on a thread of its own.

#ifndef KCACHE_TESTS_CHAOS_OPERATOR_H_
#define KCACHE_TESTS_CHAOS_OPERATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "contract/history.h"
#include "kcache/device.h"
#include "kcache/v1/admin.grpc.pb.h"
#include "tests/chaos/plan.h"

namespace kcache::chaos {

class Operator {
 public:
  Operator(const std::string& admin_socket, std::vector<DeviceId> devices, const History* history);
  ~Operator();

  void Start(const Step& step);
  // Waits for all that was started.
  void Finish();
  // Records what the daemon counts now.
  void NoteStatus();

 private:
  void Perform(const Step& step);

  const std::vector<DeviceId> devices_;
  const History* const history_;
  const std::unique_ptr<v1::Admin::Stub> stub_;
  std::vector<std::thread> running_;
};

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_OPERATOR_H_
