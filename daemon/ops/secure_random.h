// Random numbers from OpenSSL's generator: ids, session keys and token keys are made of them.
//
// Threads: any.

#ifndef KCACHE_DAEMON_OPS_SECURE_RANDOM_H_
#define KCACHE_DAEMON_OPS_SECURE_RANDOM_H_

#include <string>

#include "daemon/core/dependencies.h"

namespace kcache::ops {

// Ends the process when the generator fails: guessable keys are worse than no daemon.
class SecureRandom : public core::Random {
 public:
  uint64_t Id() override;
  std::string Bytes(size_t count) override;
};

}  // namespace kcache::ops

#endif  // KCACHE_DAEMON_OPS_SECURE_RANDOM_H_
