// Runs a case and compares its result.
//
// Threads: one.

#ifndef KCACHE_TESTS_CORPUS_VULKAN_CHECKS_H_
#define KCACHE_TESTS_CORPUS_VULKAN_CHECKS_H_

#include "absl/status/status.h"
#include "kcache/client.h"
#include "tests/corpus/vulkan/cases.h"

namespace kcache::corpus {

// Launches `kernel`, which was acquired for `wanted`, and compares every element; the failure says
// which one differs.
absl::Status Check(Client& client, const DeviceId& device, const Kernel& kernel,
                   const Case& wanted);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VULKAN_CHECKS_H_
