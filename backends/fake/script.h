// Faults on demand: what the fake does wrong, and when.
//
// A script is settings separated by `;` or new lines, from the environment (KCACHE_FAKE_SCRIPT, or
// KCACHE_BACKEND_FAKE_SCRIPT, which kcached lets through), or from the program's own text, one a line, as
// `pragma SETTING`:
//
//   devices = 3                     how many devices there are; 2 by default
//   node = /dev/card                a file that counts as the devices' node: every context has it open
//   memory = 1048576                bytes of device memory; allocations beyond fail
//   unavailable = no such card      probe says so
//   FUNCTION@WHEN = ACTION          FUNCTION: a method of driver.h, as `Launch`, `Allocate`, `Compile`, `Close`
//   FUNCTION[SUBJECT]@WHEN = ACTION only calls about SUBJECT: a kernel's entry, a block's size in bytes
//
//   WHEN:    3 (the third call), 3+ (that and all later ones), * (every call); calls are counted from 1 for
//            each rule by itself
//   ACTION:  fail REASON            returns the typed failure, as `fail OUT_OF_DEVICE_MEMORY`
//            late REASON            queue commands: is accepted, and fails when it runs
//            fault                  KERNEL_FAULT when it runs: the context is dead
//            hang                   never returns
//            sleep MILLISECONDS     returns late
//            exit CODE | abort | segv
//            memory MEGABYTES       takes that much memory, and keeps it
//            log BYTES              Compile: writes a log of that size
//            jit MICROSECONDS       Load: reports so much compiling
//            attempt WHAT           tries what no backend should (attempt.h); fails with what it was told
//
// Threads: any; a script counts its calls with a lock.

#ifndef KCACHE_BACKENDS_FAKE_SCRIPT_H_
#define KCACHE_BACKENDS_FAKE_SCRIPT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "contract/mutex.h"

namespace kcache::backend::fake {

struct Action {
  enum class Kind { kNone, kFail, kLate, kLog, kJit };
  Kind kind = Kind::kNone;
  absl::Status status;   // kFail, kLate
  uint64_t number = 0;   // kLog, kJit
};

class Script {
 public:
  Script() = default;
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  // BAD_REQUEST naming the setting that is not understood.
  absl::Status Add(std::string_view text);
  // The settings among the `pragma` lines of a program.
  absl::Status AddPragmas(std::string_view program);
  static absl::StatusOr<std::shared_ptr<Script>> FromEnvironment();

  // One call of `function`: does what the script says, unless that is for the caller to do.
  Action Call(std::string_view function, std::string_view subject = "");

  uint32_t devices() const { return devices_; }
  uint64_t memory() const { return memory_; }
  const std::string& unavailable() const { return unavailable_; }
  const std::string& node() const { return node_; }

 private:
  struct Rule {
    std::string function;
    std::string subject;
    uint64_t first = 1;
    bool only_first = false;
    std::string verb;
    std::string operand;
    uint64_t calls = 0;
  };

  absl::Status AddSetting(std::string_view setting);
  absl::Status AddRule(std::string_view left, std::string_view right);

  uint32_t devices_ = 2;
  uint64_t memory_ = uint64_t{1} << 30;
  std::string unavailable_;
  std::string node_;
  Mutex mutex_;
  std::vector<Rule> rules_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace kcache::backend::fake

#endif  // KCACHE_BACKENDS_FAKE_SCRIPT_H_
