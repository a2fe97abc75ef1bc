// Where the programs of a run are compiled, and whether they are launched.

#ifndef KCACHE_TESTS_CORPUS_VKFFT_PLACE_H_
#define KCACHE_TESTS_CORPUS_VKFFT_PLACE_H_

#include <string>

#include "kcache/client.h"

namespace kcache::corpus {

class CompileRole;

// Either `role` or `client` is there. What it points to outlives what is made from it.
struct Place {
  std::string framework = {};          // "CUDA"
  std::string architecture = {};       // compiled for; a device's own where there is one
  CompileRole* role = nullptr;         // a backend's compile role, without a daemon
  Client* client = nullptr;            // a session with the daemon
  const DeviceInfo* device = nullptr;  // null: programs are compiled and not launched
};

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VKFFT_PLACE_H_
