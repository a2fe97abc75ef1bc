// Those of llama.cpp's shaders whose result can be computed here as well: element-wise functions,
// and sums and maxima of rows.
//
// Threads: one.

#ifndef KCACHE_TESTS_CORPUS_VULKAN_CHECKS_H_
#define KCACHE_TESTS_CORPUS_VULKAN_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "kcache/client.h"

namespace kcache::corpus {

// Names of the variants that Check knows.
std::vector<std::string> CheckableVariants();

// What a checkable variant has to be acquired with; empty for all others.
Specialization SpecializationFor(const std::string& name);

// Launches `kernel`, which is variant `name`, and compares every element; the failure says which.
absl::Status Check(Client& client, const DeviceId& device, const std::string& name,
                   const Kernel& kernel);

}  // namespace kcache::corpus

#endif  // KCACHE_TESTS_CORPUS_VULKAN_CHECKS_H_
