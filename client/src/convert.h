// Between the wire's messages and the public values.
//
// Threads: pure functions.

#ifndef KCACHE_CLIENT_CONVERT_H_
#define KCACHE_CLIENT_CONVERT_H_

#include "contract/device_name.h"
#include "kcache/artifact.h"
#include "kcache/device.h"
#include "kcache/image.h"
#include "kcache/kernel.h"
#include "kcache/listener.h"
#include "kcache/v1/execution.pb.h"
#include "kcache/v1/session.pb.h"

namespace kcache::internal {

Dim3 FromWire(const v1::Dim3& extent);
v1::Dim3 ToWire(const Dim3& extent);
KernelInfo FromWire(const v1::KernelInfo& kernel);
DeviceInfo FromWire(const v1::DeviceInfo& device);
DeviceList FromWire(const v1::DeviceList& list);
Origin FromWire(v1::GrantOrigin origin);
v1::Specialization ToWire(const Specialization& specialization);
v1::ImageDescription ToWire(const ImageDescription& description);

inline DeviceName ToName(const DeviceId& device) { return {device.framework, device.index}; }
inline DeviceId ToId(const DeviceName& device) { return {device.framework, device.index}; }

OperationId OperationIdFrom(const std::string& bytes);
std::string BytesOf(const OperationId& operation);

DeviceEvent DeviceEventFrom(const v1::Invalidate& event);
ClearEvent ClearEventFrom(const v1::Invalidate& event);

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_CONVERT_H_
