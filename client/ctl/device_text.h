// What `kcachectl devices` says of a device below its table.
//
// Threads: pure functions, any thread.

#ifndef KCACHE_CLIENT_CTL_DEVICE_TEXT_H_
#define KCACHE_CLIENT_CTL_DEVICE_TEXT_H_

#include <string>

#include "kcache/v1/types.pb.h"

namespace kcache::ctl {

// Lines of "  name  value": uuid, PCI address, compiler, variants, languages, at which offsets parts
// of buffers are shown in place, compute mode, MPS, MIG. What the device's API does not tell is left
// out; whether MPS and MIG are on is told only where a compute mode is.
std::string DeviceDetails(const v1::DeviceInfo& info);

}  // namespace kcache::ctl

#endif  // KCACHE_CLIENT_CTL_DEVICE_TEXT_H_
