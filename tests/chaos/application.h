// What a chaos client does with the library, step by step, and the record of it.
//
// A *round* acquires a kernel, fills a buffer, launches a few times in place, synchronizes, reads, and
// checks every element. Its record says how many launches the library took and how it ended; validators
// judge it.
//
// Threads: one; listeners run on the library's and only record.

#ifndef KCACHE_TESTS_CHAOS_APPLICATION_H_
#define KCACHE_TESTS_CHAOS_APPLICATION_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/history.h"
#include "kcache/client.h"
#include "tests/chaos/kernels.h"

namespace kcache::chaos {

struct ApplicationOptions {
  std::string socket;
  std::vector<DeviceId> devices;
  uint64_t seed = 0;
  bool stubborn = false;
};

class Application {
 public:
  Application(ApplicationOptions options, const History* history);

  int NextPause();  // milliseconds
  uint32_t NextBelow(uint32_t limit);
  void Act();
  // Waits until what the daemon has sent has reached the listeners, and ends the session.
  void Finish();

 private:
  enum class Action { kRound, kBatch, kForget, kClear, kDestroy, kReconnect, kBarrier };

  bool Connected();
  void Connect();
  void Disconnect();
  void NoteSession();
  void Listen();
  void Barrier();
  void Round(const DeviceId& device);
  void RunLaunches(uint64_t round, const Kernel& kernel, const DeviceId& device, uint32_t number,
                   Temper temper);
  void Batch(const DeviceId& device);
  absl::StatusOr<Kernel> AcquireOrHeld(const KernelRequest& request, uint32_t* number);
  void Hear(std::string_view what, const InvalidationEvent& event, std::string_view family,
            std::optional<uint32_t> index);
  const DeviceId& Device();

  const ApplicationOptions options_;
  const History* const history_;
  std::mt19937_64 random_;
  std::shared_ptr<Client> client_;
  Registration on_destroy_, on_clear_;
  // A stubborn application launches on what it has for as long as the library takes it.
  std::map<DeviceId, std::pair<Kernel, uint32_t>> held_;  // with the program's number
  uint64_t session_ = 0;
  uint64_t rounds_ = 0;
  std::atomic<uint64_t> heard_{0};
  std::atomic<uint64_t> listening_{0};  // callbacks that run
  std::atomic<uint32_t> stubbornness_{0};
  std::atomic<bool> hurry_{false};  // a barrier waits: nobody is stubborn
};

}  // namespace kcache::chaos

#endif  // KCACHE_TESTS_CHAOS_APPLICATION_H_
