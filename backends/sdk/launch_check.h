// Checks a launch against what reflection and the device say, before the driver sees it.
//
// INVALID_LAUNCH names the dimension, its value and the limit; INVALID_ARGUMENTS the argument, what it
// is and what the kernel wants.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_BACKENDS_SDK_LAUNCH_CHECK_H_
#define KCACHE_BACKENDS_SDK_LAUNCH_CHECK_H_

#include "absl/status/status.h"
#include "backends/sdk/driver.h"
#include "kcache/v1/execution.pb.h"
#include "kcache/v1/types.pb.h"

namespace kcache::backend {

// Fills grid, local, global, offset, dimensions and repeat of `command`.
absl::Status CheckShape(const v1::Launch& launch, const v1::KernelInfo& kernel,
                        const v1::DeviceLimits& limits, LaunchCommand* command);

// How many arguments there must be, and of which kinds and sizes.
absl::Status CheckArguments(const v1::Launch& launch, const v1::KernelInfo& kernel);

}  // namespace kcache::backend

#endif  // KCACHE_BACKENDS_SDK_LAUNCH_CHECK_H_
