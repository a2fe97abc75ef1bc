// The HIP family: what kcache-backend-hip serves, on AMD's GPUs and, where it was built in, on
// NVIDIA's.
//
// Devices are those of one platform: AMD's when its runtime lists a device, else NVIDIA's. Programs
// compile for both whatever devices there are: the architecture says for which ("gfx90a",
// "sm_90a").
//
// Threads: driver.h. Ownership: nothing is opened before it is asked for.
#ifndef KCACHE_BACKENDS_HIP_HIP_FAMILY_H_
#define KCACHE_BACKENDS_HIP_HIP_FAMILY_H_

#include <memory>
#include <string>

#include "backends/sdk/driver.h"

namespace kcache::backend::hip {

// `program` is what is started, with --try-architecture, to try an architecture.
std::unique_ptr<Family> MakeHipFamily(std::string program = "/proc/self/exe");

}  // namespace kcache::backend::hip

#endif  // KCACHE_BACKENDS_HIP_HIP_FAMILY_H_
