#include "client/src/command_encoder.h"

#include <cstring>

namespace kcache::internal {
namespace {

// Wire types of the protobuf encoding.
constexpr uint32_t kVarint = 0;
constexpr uint32_t kBytes = 2;

// A length field of fixed width, for lengths up to 2^28.
constexpr size_t kPaddedLength = 4;
// The most a tag (field numbers below 16) with one varint takes.
constexpr size_t kMaxField = 1 + 10;
constexpr size_t kMaxDim3 = 2 + 3 * (1 + 5);

char* PutVarint(char* out, uint64_t value) {
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

constexpr size_t VarintSize(uint64_t value) {
  size_t size = 1;
  while (value >= 0x80) {
    value >>= 7;
    ++size;
  }
  return size;
}

char* PutTag(char* out, int field, uint32_t type) {
  *out++ = static_cast<char>(static_cast<uint32_t>(field) << 3 | type);
  return out;
}

// proto3: zero is not written.
char* PutUint(char* out, int field, uint64_t value) {
  if (value == 0) return out;
  return PutVarint(PutTag(out, field, kVarint), value);
}

constexpr size_t UintSize(uint64_t value) { return value == 0 ? 0 : 1 + VarintSize(value); }

char* PutBytes(char* out, int field, const char* data, size_t size) {
  out = PutVarint(PutTag(out, field, kBytes), size);
  if (size > 0) std::memcpy(out, data, size);
  return out + size;
}

void PatchLength(char* at, size_t length) {
  at[0] = static_cast<char>(length | 0x80);
  at[1] = static_cast<char>(length >> 7 | 0x80);
  at[2] = static_cast<char>(length >> 14 | 0x80);
  at[3] = static_cast<char>(length >> 21 & 0x7f);
}

char* PutDim3(char* out, int field, const Dim3& extent) {
  if (!extent.given()) return out;
  out = PutTag(out, field, kBytes);
  *out++ = static_cast<char>(UintSize(extent.x) + UintSize(extent.y) + UintSize(extent.z));
  out = PutUint(out, 1, extent.x);
  out = PutUint(out, 2, extent.y);
  return PutUint(out, 3, extent.z);
}

char* PutArgument(char* out, const WireArgument& argument) {
  using Field = v1::Argument;
  switch (argument.kind) {
    case WireArgument::Kind::kScalar:
      out = PutVarint(out, 1 + VarintSize(argument.bytes) + argument.bytes);
      return PutBytes(out, Field::kScalarFieldNumber, argument.data, argument.bytes);
    case WireArgument::Kind::kSampler: {
      const SamplerState& sampler = argument.sampler;
      const size_t size =
          UintSize(sampler.normalized) + UintSize(sampler.addressing) + UintSize(sampler.linear);
      out = PutVarint(out, 1 + VarintSize(size) + size);
      out = PutVarint(PutTag(out, Field::kSamplerFieldNumber, kBytes), size);
      out = PutUint(out, v1::Sampler::kNormalizedCoordinatesFieldNumber, sampler.normalized);
      out = PutUint(out, v1::Sampler::kAddressingFieldNumber, sampler.addressing);
      return PutUint(out, v1::Sampler::kLinearFieldNumber, sampler.linear);
    }
    case WireArgument::Kind::kBuffer:
    case WireArgument::Kind::kImage:
      // A member of a oneof is written even when zero.
      out = PutVarint(out, 1 + VarintSize(argument.buffer));
      out = PutTag(out,
                   argument.kind == WireArgument::Kind::kBuffer ? Field::kBufferFieldNumber
                                                                : Field::kImageFieldNumber,
                   kVarint);
      return PutVarint(out, argument.buffer);
    case WireArgument::Kind::kLocalMemory:
      out = PutVarint(out, 1 + VarintSize(argument.bytes));
      out = PutTag(out, Field::kLocalBytesFieldNumber, kVarint);
      return PutVarint(out, argument.bytes);
    case WireArgument::Kind::kRange: {
      const size_t range =
          UintSize(argument.buffer) + UintSize(argument.offset) + UintSize(argument.bytes);
      out = PutVarint(out, 1 + VarintSize(range) + range);
      out = PutVarint(PutTag(out, Field::kRangeFieldNumber, kBytes), range);
      out = PutUint(out, v1::BufferRange::kBufferFieldNumber, argument.buffer);
      out = PutUint(out, v1::BufferRange::kOffsetFieldNumber, argument.offset);
      return PutUint(out, v1::BufferRange::kBytesFieldNumber, argument.bytes);
    }
  }
  return out;
}

// Lets `put(char*) -> char*` append at most `most` bytes.
template <class Put>
void Append(std::string* out, size_t most, Put put) {
  const size_t start = out->size();
  out->resize(start + most);
  char* const end = put(out->data() + start);
  out->resize(static_cast<size_t>(end - out->data()));
}

}  // namespace

void AppendLaunch(uint32_t queue, const WireLaunch& launch, const LaunchConfig& config,
                  std::string* out) {
  size_t most = 2 * (1 + kPaddedLength) + 7 * kMaxField + 4 * kMaxDim3 +
                config.push_constants.size() + 3 * kMaxField * launch.arguments.size();
  for (const WireArgument& argument : launch.arguments) {
    if (argument.data != nullptr) most += argument.bytes;
  }
  Append(out, most, [&](char* at) {
    at = PutTag(at, v1::ExecutionRequest::kCommandsFieldNumber, kBytes);
    char* const command = at;
    at = PutUint(at + kPaddedLength, v1::Command::kQueueFieldNumber, queue);
    at = PutTag(at, v1::Command::kLaunchFieldNumber, kBytes);
    char* const body = at;
    at = PutUint(at + kPaddedLength, v1::Launch::kSlotFieldNumber, launch.slot);
    at = PutUint(at, v1::Launch::kIncarnationFieldNumber, launch.incarnation);
    at = PutDim3(at, v1::Launch::kGridFieldNumber, config.grid);
    at = PutDim3(at, v1::Launch::kLocalFieldNumber, config.local);
    at = PutDim3(at, v1::Launch::kGlobalFieldNumber, config.global);
    at = PutUint(at, v1::Launch::kDynamicLocalBytesFieldNumber, config.dynamic_local_bytes);
    for (const WireArgument& argument : launch.arguments) {
      at = PutArgument(PutTag(at, v1::Launch::kArgumentsFieldNumber, kBytes), argument);
    }
    if (!config.push_constants.empty()) {
      at = PutBytes(at, v1::Launch::kPushConstantsFieldNumber,
                    reinterpret_cast<const char*>(config.push_constants.data()),
                    config.push_constants.size());
    }
    if (config.repeat > 1) at = PutUint(at, v1::Launch::kRepeatFieldNumber, config.repeat);
    at = PutDim3(at, v1::Launch::kGlobalOffsetFieldNumber, config.global_offset);
    at = PutUint(at, v1::Launch::kDimensionsFieldNumber, config.dimensions);
    PatchLength(body, static_cast<size_t>(at - body) - kPaddedLength);
    PatchLength(command, static_cast<size_t>(at - command) - kPaddedLength);
    return at;
  });
}

void AppendWrite(uint32_t queue, uint64_t buffer, uint64_t offset, std::string_view data,
                 std::string* out) {
  // The data comes last, so that it is copied once, behind a header that counts it already.
  Append(out, 2 * (1 + kPaddedLength) + 4 * kMaxField, [&](char* at) {
    at = PutTag(at, v1::ExecutionRequest::kCommandsFieldNumber, kBytes);
    char* const command = at;
    at = PutUint(at + kPaddedLength, v1::Command::kQueueFieldNumber, queue);
    at = PutTag(at, v1::Command::kWriteFieldNumber, kBytes);
    char* const body = at;
    at = PutUint(at + kPaddedLength, v1::WriteBuffer::kBufferFieldNumber, buffer);
    at = PutUint(at, v1::WriteBuffer::kOffsetFieldNumber, offset);
    at = PutVarint(PutTag(at, v1::WriteBuffer::kDataFieldNumber, kBytes), data.size());
    PatchLength(body, static_cast<size_t>(at - body) - kPaddedLength + data.size());
    PatchLength(command, static_cast<size_t>(at - command) - kPaddedLength + data.size());
    return at;
  });
  out->append(data);
}

void AppendCommand(const v1::Command& command, std::string* out) {
  const size_t size = command.ByteSizeLong();
  Append(out, 1 + kPaddedLength, [&](char* at) {
    at = PutTag(at, v1::ExecutionRequest::kCommandsFieldNumber, kBytes);
    PatchLength(at, size);
    return at + kPaddedLength;
  });
  command.AppendToString(out);
}

}  // namespace kcache::internal
