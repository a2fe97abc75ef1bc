// Kernel: checks a launch against what reflection knows, and hands it to the stream.

#include <algorithm>
#include <array>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "client/src/client_impl.h"
#include "client/src/state.h"
#include "contract/error_reason.h"
#include "contract/strings.h"
#include "kcache/buffer.h"
#include "kcache/image.h"
#include "kcache/kernel.h"

namespace kcache {
namespace {

using internal::BufferState;
using internal::KernelState;
using internal::WireArgument;

constexpr size_t kMaxArguments = 1024;

std::string ArgumentName(const KernelState& kernel, size_t index) {
  std::string name = absl::StrCat("argument ", index, " of ", Quoted(kernel.info.entry));
  if (index < kernel.info.arguments.size() && !kernel.info.arguments[index].name.empty()) {
    absl::StrAppend(&name, " (", kernel.info.arguments[index].name, ")");
  }
  return name;
}

std::string_view KindName(ArgumentKind kind) {
  switch (kind) {
    case ArgumentKind::kScalar:
      return "a value";
    case ArgumentKind::kBuffer:
      return "a buffer";
    case ArgumentKind::kLocalMemory:
      return "local memory";
    case ArgumentKind::kImage:
      return "an image";
    case ArgumentKind::kSampler:
      return "a sampler";
    case ArgumentKind::kUnknown:
      break;
  }
  return "something";
}

ArgumentKind KindOf(Argument::Kind kind) {
  switch (kind) {
    case Argument::Kind::kScalar:
      return ArgumentKind::kScalar;
    case Argument::Kind::kBuffer:
    case Argument::Kind::kView:
      return ArgumentKind::kBuffer;
    case Argument::Kind::kLocalMemory:
      return ArgumentKind::kLocalMemory;
    case Argument::Kind::kImage:
      return ArgumentKind::kImage;
    case Argument::Kind::kSampler:
      return ArgumentKind::kSampler;
  }
  return ArgumentKind::kUnknown;
}

absl::Status WrongCount(const KernelState& kernel, size_t expected, size_t given) {
  return MakeError(v1::INVALID_ARGUMENTS,
                   absl::StrCat(Quoted(kernel.info.entry), " takes ", expected, " arguments, ",
                                given, " were given"));
}

absl::Status WrongPushConstants(const KernelState& kernel, size_t given) {
  return MakeError(
      v1::INVALID_ARGUMENTS,
      absl::StrCat(Quoted(kernel.info.entry), " takes ", kernel.info.push_constant_bytes,
                   " bytes of push constants, ", given, " were given"));
}

absl::Status WrongKind(const KernelState& kernel, size_t index, ArgumentKind given) {
  return MakeError(v1::INVALID_ARGUMENTS,
                   absl::StrCat(ArgumentName(kernel, index), " is ",
                                std::string(KindName(kernel.info.arguments[index].kind)), ", ",
                                std::string(KindName(given)), " was given"));
}

absl::Status WrongSize(const KernelState& kernel, size_t index, uint64_t given) {
  return MakeError(v1::INVALID_ARGUMENTS, absl::StrCat(ArgumentName(kernel, index), " has ",
                                                       kernel.info.arguments[index].bytes,
                                                       " bytes, ", given, " were given"));
}

absl::Status WrongContext(const KernelState& kernel, size_t index, const BufferState& buffer) {
  if (buffer.context->slot == kernel.context->slot) {
    return MakeError(v1::UNKNOWN_BUFFER, absl::StrCat(ArgumentName(kernel, index),
                                                      ": the buffer was lost with an "
                                                      "earlier context of ",
                                                      kernel.context->slot->id().ToString()));
  }
  return MakeError(v1::UNKNOWN_BUFFER,
                   absl::StrCat(ArgumentName(kernel, index), ": a buffer of ",
                                buffer.context->slot->id().ToString(), ", but the kernel is on ",
                                kernel.context->slot->id().ToString()));
}

// Fills `to`; everything that can be known here is checked here.
absl::Status Resolve(const KernelState& kernel, size_t index, const Argument& argument,
                     WireArgument* to) {
  if (kernel.info.arguments_known) {
    const ArgumentInfo& expected = kernel.info.arguments[index];
    const ArgumentKind given = KindOf(argument.kind());
    if (expected.kind != ArgumentKind::kUnknown && expected.kind != given) {
      return WrongKind(kernel, index, given);
    }
    if (given == ArgumentKind::kScalar && expected.bytes != 0 &&
        expected.bytes != argument.bytes()) {
      return WrongSize(kernel, index, argument.bytes());
    }
  }
  const BufferState* memory = nullptr;
  switch (argument.kind()) {
    case Argument::Kind::kScalar:
      to->kind = WireArgument::Kind::kScalar;
      to->data = static_cast<const char*>(argument.data());
      to->bytes = argument.bytes();
      return absl::OkStatus();
    case Argument::Kind::kLocalMemory:
      to->kind = WireArgument::Kind::kLocalMemory;
      to->bytes = argument.bytes();
      return absl::OkStatus();
    case Argument::Kind::kSampler: {
      const auto* sampler = static_cast<const Sampler*>(argument.data());
      to->kind = WireArgument::Kind::kSampler;
      to->sampler = {.normalized = sampler->normalized_coordinates,
                     .addressing = static_cast<uint8_t>(sampler->addressing),
                     .linear = sampler->linear};
      return absl::OkStatus();
    }
    case Argument::Kind::kBuffer:
      to->kind = WireArgument::Kind::kBuffer;
      memory = static_cast<const Buffer*>(argument.data())->state();
      break;
    case Argument::Kind::kView: {
      const auto* view = static_cast<const BufferView*>(argument.data());
      memory = view->state();
      to->kind = WireArgument::Kind::kRange;
      to->offset = view->offset();
      to->bytes = view->bytes();
      break;
    }
    case Argument::Kind::kImage:
      to->kind = WireArgument::Kind::kImage;
      memory = static_cast<const Image*>(argument.data())->state();
      break;
  }
  if (memory == nullptr) {
    return MakeError(v1::UNKNOWN_BUFFER,
                     absl::StrCat(ArgumentName(kernel, index), ": the buffer is empty"));
  }
  if (memory->context != kernel.context) return WrongContext(kernel, index, *memory);
  to->buffer = memory->id;
  return absl::OkStatus();
}

absl::Status CheckExtent(const KernelState& kernel, const LaunchConfig& config) {
  if (config.grid.given() == config.global.given()) {
    return MakeError(v1::INVALID_LAUNCH,
                     absl::StrCat("launch of ", Quoted(kernel.info.entry),
                                  config.grid.given() ? ": both grid and global are given"
                                                      : ": neither grid nor global is given"));
  }
  if (config.grid.given() && !config.local.given()) {
    return MakeError(v1::INVALID_LAUNCH, absl::StrCat("launch of ", Quoted(kernel.info.entry),
                                                      ": a grid needs a local size"));
  }
  const auto check = [&](const char* what, const Dim3& extent) {
    if (!extent.given() || (extent.x != 0 && extent.y != 0 && extent.z != 0)) {
      return absl::OkStatus();
    }
    return MakeError(v1::INVALID_LAUNCH, absl::StrCat("launch of ", Quoted(kernel.info.entry), ": ",
                                                      what, " is ", extent.x, " x ", extent.y,
                                                      " x ", extent.z, "; no dimension may be 0"));
  };
  for (const auto& [what, extent] : {std::pair<const char*, const Dim3&>("grid", config.grid),
                                     {"local size", config.local},
                                     {"global size", config.global}}) {
    if (absl::Status bad = check(what, extent); !bad.ok()) return bad;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Kernel::LaunchList(const Queue& queue, const LaunchConfig& config,
                                std::span<const Argument> arguments) const {
  if (state_ == nullptr) return MakeError(v1::LEASE_UNKNOWN, "the kernel is empty");
  const KernelState& kernel = *state_;
  if (kernel.context->fork_guard.forked()) return internal::ForkedError();
  if (queue.slot() != kernel.context->slot) {
    return MakeError(v1::UNKNOWN_QUEUE, queue.empty()
                                            ? "the queue is empty"
                                            : absl::StrCat("a queue of ", queue.device().ToString(),
                                                           ", but the kernel is on ",
                                                           kernel.context->slot->id().ToString()));
  }
  if (kernel.info.arguments_known) {
    size_t expected = kernel.info.arguments.size();
    if (!config.push_constants.empty()) {
      if (config.push_constants.size() != kernel.info.push_constant_bytes) {
        return WrongPushConstants(kernel, config.push_constants.size());
      }
      // The block stands for the scalars, which come after all buffers.
      while (expected > 0 && kernel.info.arguments[expected - 1].kind == ArgumentKind::kScalar) {
        --expected;
      }
    }
    if (arguments.size() != expected) return WrongCount(kernel, expected, arguments.size());
  }
  if (arguments.size() > kMaxArguments) {
    return MakeError(v1::INVALID_ARGUMENTS, absl::StrCat(arguments.size(), " arguments; at most ",
                                                         kMaxArguments, " are possible"));
  }
  if (absl::Status bad = CheckExtent(kernel, config); !bad.ok()) return bad;
  absl::InlinedVector<WireArgument, 16> resolved(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (absl::Status bad = Resolve(kernel, i, arguments[i], &resolved[i]); !bad.ok()) return bad;
  }
  return kernel.context->stream->Launch(queue.number(), &kernel.gate, resolved, config);
}

const KernelInfo& Kernel::info() const {
  static const KernelInfo* const kNone = new KernelInfo;
  return state_ == nullptr ? *kNone : state_->info;
}

const DeviceId& Kernel::device() const {
  static const DeviceId* const kNone = new DeviceId;
  return state_ == nullptr ? *kNone : state_->context->slot->id();
}

Origin Kernel::origin() const { return state_ == nullptr ? Origin::kUnknown : state_->origin; }

bool Kernel::valid() const {
  return state_ != nullptr && !state_->context->fork_guard.forked() &&
         state_->context->stream->Admits(state_->gate);
}

absl::StatusOr<UseScope> Kernel::Use() const {
  if (state_ == nullptr) return MakeError(v1::LEASE_UNKNOWN, "the kernel is empty");
  if (state_->context->fork_guard.forked()) return internal::ForkedError();
  if (absl::Status refused = state_->context->stream->OpenUse(&state_->gate); !refused.ok()) {
    return refused;
  }
  if (auto client = state_->client.lock()) client->OpenedUse();
  return UseScope(state_);
}

UseScope::~UseScope() { Close(); }

UseScope::UseScope(UseScope&& other) noexcept : state_(std::move(other.state_)) {}

UseScope& UseScope::operator=(UseScope&& other) noexcept {
  if (this != &other) {
    Close();
    state_ = std::move(other.state_);
  }
  return *this;
}

void UseScope::Close() {
  const std::shared_ptr<internal::KernelState> state = std::exchange(state_, nullptr);
  if (state == nullptr || state->context->fork_guard.forked()) return;
  if (auto client = state->client.lock()) client->ClosedUse();
  state->context->stream->CloseUse(&state->gate);
}

}  // namespace kcache
