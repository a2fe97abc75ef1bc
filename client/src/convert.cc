#include "client/src/convert.h"

#include <algorithm>

#include "contract/error_reason.h"

namespace kcache::internal {

Dim3 FromWire(const v1::Dim3& extent) { return {extent.x(), extent.y(), extent.z()}; }

v1::Dim3 ToWire(const Dim3& extent) {
  v1::Dim3 wire;
  wire.set_x(extent.x);
  wire.set_y(extent.y);
  wire.set_z(extent.z);
  return wire;
}

KernelInfo FromWire(const v1::KernelInfo& kernel) {
  KernelInfo info;
  info.entry = kernel.entry();
  info.lowered_name = kernel.lowered_name();
  info.arguments_known = kernel.arguments_known();
  for (const v1::ArgumentInfo& argument : kernel.arguments()) {
    info.arguments.push_back({.kind = static_cast<ArgumentKind>(argument.kind()),
                              .bytes = argument.bytes(),
                              .name = argument.name(),
                              .type_name = argument.type_name()});
  }
  info.required_local_size = FromWire(kernel.required_local_size());
  info.local_memory_bytes = kernel.local_memory_bytes();
  info.private_memory_bytes = kernel.private_memory_bytes();
  info.max_local_size = kernel.max_local_size();
  info.push_constant_bytes = kernel.push_constant_bytes();
  info.registers = kernel.registers();
  return info;
}

DeviceInfo FromWire(const v1::DeviceInfo& device) {
  DeviceInfo info;
  info.id = {device.device().framework(), device.device().index()};
  info.global_id = device.global_id();
  info.name = device.name();
  info.vendor = device.vendor();
  info.uuid = device.uuid();
  info.pci_address = device.pci_address();
  info.architecture = device.architecture();
  info.driver_version = device.driver_version();
  info.compiler_version = device.compiler_version();
  info.variants.assign(device.variants().begin(), device.variants().end());
  info.languages.assign(device.languages().begin(), device.languages().end());
  const v1::DeviceLimits& limits = device.limits();
  info.limits = {.memory_bytes = limits.memory_bytes(),
                 .max_allocation_bytes = limits.max_allocation_bytes(),
                 .local_memory_bytes = limits.local_memory_bytes(),
                 .max_local_size = limits.max_local_size(),
                 .max_local_dims = FromWire(limits.max_local_dims()),
                 .max_grid_x = limits.max_grid_x(),
                 .max_grid_y = limits.max_grid_y(),
                 .max_grid_z = limits.max_grid_z(),
                 .push_constant_bytes = limits.push_constant_bytes(),
                 .compute_units = limits.compute_units(),
                 .buffer_offset_alignment = limits.buffer_offset_alignment()};
  info.state = static_cast<DeviceState>(device.state());
  info.reason = device.reason();
  info.is_cpu = device.is_cpu();
  return info;
}

DeviceList FromWire(const v1::DeviceList& list) {
  DeviceList devices;
  for (const v1::DeviceInfo& device : list.devices()) devices.devices.push_back(FromWire(device));
  for (const v1::UnavailableFamily& family : list.unavailable()) {
    devices.unavailable.push_back({family.family(), family.reason()});
  }
  return devices;
}

Origin FromWire(v1::GrantOrigin origin) { return static_cast<Origin>(origin); }

v1::Specialization ToWire(const Specialization& specialization) {
  v1::Specialization wire;
  for (const SpecializationConstant& constant : specialization.constants) {
    v1::SpecializationConstant* to = wire.add_constants();
    to->set_id(constant.id);
    std::string value;
    for (uint32_t byte = 0; byte < std::min<uint32_t>(constant.bytes, 8); ++byte) {
      value.push_back(static_cast<char>(constant.value >> (8 * byte)));
    }
    to->set_value(value);
  }
  if (specialization.local_size.given()) {
    *wire.mutable_local_size() = ToWire(specialization.local_size);
  }
  return wire;
}

v1::ImageDescription ToWire(const ImageDescription& description) {
  v1::ImageDescription wire;
  wire.set_dimensions(static_cast<v1::ImageDimensions>(description.dimensions));
  wire.set_order(static_cast<v1::ChannelOrder>(description.order));
  wire.set_type(static_cast<v1::ChannelType>(description.type));
  wire.set_width(description.width);
  wire.set_height(description.height);
  wire.set_depth(description.depth);
  wire.set_layers(description.layers);
  return wire;
}

OperationId OperationIdFrom(const std::string& bytes) {
  OperationId id;
  std::copy_n(bytes.begin(), std::min(bytes.size(), id.bytes.size()), id.bytes.begin());
  return id;
}

std::string BytesOf(const OperationId& operation) {
  return std::string(operation.bytes.begin(), operation.bytes.end());
}

namespace {

EventCause CauseOf(const v1::Invalidate& event) {
  switch (event.kind()) {
    case v1::INVALIDATE_DEVICE:
      return EventCause::kDestroyed;
    case v1::INVALIDATE_RESET:
      return EventCause::kReset;
    case v1::INVALIDATE_LOST:
      return EventCause::kLost;
    case v1::INVALIDATE_COVER:
    case v1::INVALIDATE_MISSED:
      // Only this library makes a record without a revision: for a session that is gone.
      return event.revision() == 0 ? EventCause::kSessionLost : EventCause::kMissed;
    default:
      return EventCause::kCleared;
  }
}

void FillEvent(const v1::Invalidate& from, InvalidationEvent* to) {
  to->phase = from.phase() == v1::PHASE_AFTER ? EventPhase::kAfter : EventPhase::kBefore;
  to->cause = CauseOf(from);
  to->operation = OperationIdFrom(from.operation_id());
  to->revision = from.revision();
  to->reason = from.reason();
  to->grace = std::chrono::milliseconds(from.deadline_ms());
  to->initiator = from.initiator();
  to->lost = from.lost();
  to->failure = FromProto(from.failure());
}

}  // namespace

DeviceEvent DeviceEventFrom(const v1::Invalidate& event) {
  DeviceEvent to;
  FillEvent(event, &to);
  to.family = event.family();
  if (event.has_index()) to.index = event.index();
  return to;
}

ClearEvent ClearEventFrom(const v1::Invalidate& event) {
  ClearEvent to;
  FillEvent(event, &to);
  to.family = event.family();
  if (event.has_index()) to.index = event.index();
  return to;
}

}  // namespace kcache::internal
