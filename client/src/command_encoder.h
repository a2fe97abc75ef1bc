// Writes execution commands straight into the message that will carry them: the launch path cannot
// afford an object tree per launch. The bytes are a serialized v1::ExecutionRequest; appending a
// command appends to its `commands`.
//
// Lengths that are not known in advance are written as padded varints, which every protobuf parser
// accepts.
//
// Threads: pure functions over the caller's string.

#ifndef KCACHE_CLIENT_COMMAND_ENCODER_H_
#define KCACHE_CLIENT_COMMAND_ENCODER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kcache/launch.h"
#include "kcache/v1/execution.pb.h"

namespace kcache::internal {

struct SamplerState {
  bool normalized = false;
  uint8_t addressing = 0;  // v1::SamplerAddressing
  bool linear = false;
};

// An argument, resolved to what the wire needs.
struct WireArgument {
  enum class Kind : uint8_t { kScalar, kBuffer, kRange, kLocalMemory, kImage, kSampler };
  Kind kind = Kind::kScalar;
  SamplerState sampler = {};
  const char* data = nullptr;  // kScalar: the value
  uint64_t bytes = 0;          // kScalar: of data; kLocalMemory; kRange
  uint64_t buffer = 0;         // kBuffer, kRange, kImage: the id
  uint64_t offset = 0;         // kRange
};

struct WireLaunch {
  uint32_t slot = 0;
  uint32_t incarnation = 0;
  std::span<const WireArgument> arguments = {};
};

void AppendLaunch(uint32_t queue, const WireLaunch& launch, const LaunchConfig& config,
                  std::string* out);

void AppendWrite(uint32_t queue, uint64_t buffer, uint64_t offset, std::string_view data,
                 std::string* out);

// Any other command.
void AppendCommand(const v1::Command& command, std::string* out);

}  // namespace kcache::internal

#endif  // KCACHE_CLIENT_COMMAND_ENCODER_H_
