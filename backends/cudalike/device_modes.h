// How a card is set up to be shared, and which of kcache's guarantees that weakens.
//
// Threads: pure functions, any thread.
#ifndef KCACHE_BACKENDS_CUDALIKE_DEVICE_MODES_H_
#define KCACHE_BACKENDS_CUDALIKE_DEVICE_MODES_H_

#include "kcache/v1/types.pb.h"

namespace kcache::backend::cudalike {

struct DeviceModes {
  int compute_mode = 0;  // CUcomputemode, hipComputeMode
  bool mps = false;      // CUDA's multi-process service serves this device
  bool mig = false;      // the device is an instance of a partitioned card
};

// Fills in compute_mode, mps, mig, state and reason. The device is up unless no context can be made.
void DescribeModes(const DeviceModes& modes, v1::DeviceInfo* info);

}  // namespace kcache::backend::cudalike

#endif  // KCACHE_BACKENDS_CUDALIKE_DEVICE_MODES_H_
