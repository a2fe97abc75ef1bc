// A core with a few clients, an operator, and everything around it faked, driven by bytes: each step does
// one thing that a client, an operator, a host, a compiler or time may do.
//
// What must hold is checked after each step (Check) and when all has been let go (Finish). A violation
// aborts.
//
// Threads: one.

#ifndef KCACHE_TESTS_FUZZ_CORE_WORLD_H_
#define KCACHE_TESTS_FUZZ_CORE_WORLD_H_

#include <fuzzer/FuzzedDataProvider.h>

#include <memory>
#include <string>
#include <vector>

#include "tests/unit/core/harness.h"

namespace kcache::core {

class World {
 public:
  explicit World(FuzzedDataProvider* bytes);

  void Step();
  // Limits are kept, and no host releases what it has not fenced.
  void Check();
  // Compilers answer, hosts go on, clients fall silent, time passes: every operation has ended, nobody
  // holds anything, and what was built has been destroyed.
  void Finish();

 private:
  TestClient* AnyClient();
  const TestProgram& AnyProgram();
  std::string AnyDevice();
  uint64_t AnyRequest();
  std::string AnyBytes(size_t at_most);
  const v1::Grant* AnyGrant();
  const v1::Invalidate* AnyInvalidate();
  HostRecord* AnyHost();

  void ClientSays();
  void ClientAcquires();
  void ClientAnswers();
  void ClientConnection();
  void ClientBlobs();
  void OperatorAsks();
  void WorkersDo();
  void HostDoes();
  void TimePasses();
  void CheckHost(const HostRecord& host);

  FuzzedDataProvider* const bytes_;
  const std::vector<TestProgram> programs_;
  const Limits limits_;
  Harness harness_;
  std::vector<std::unique_ptr<TestClient>> clients_;
  std::vector<std::shared_ptr<Harness::Told>> operations_;
  std::vector<size_t> looked_at_;  // of each host's log
};

}  // namespace kcache::core

#endif  // KCACHE_TESTS_FUZZ_CORE_WORLD_H_
