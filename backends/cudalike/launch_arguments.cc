#include "backends/cudalike/launch_arguments.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::backend::cudalike {

absl::Status LaunchArguments::Pack(std::span<const KernelArgument> arguments, bool sizes_known,
                                   std::span<const uint64_t> sizes, AddressOf address_of) {
  if (sizes_known && arguments.size() != sizes.size()) {
    return MakeError(
        v1::INVALID_ARGUMENTS,
        absl::StrCat(arguments.size(), " arguments given, the kernel takes ", sizes.size()));
  }
  count_ = arguments.size();
  addresses_.resize(count_);
  pointers_.resize(count_ + 1, nullptr);
  for (size_t i = 0; i < count_; ++i) {
    const KernelArgument& argument = arguments[i];
    size_t bytes = sizeof(DeviceAddress);
    switch (argument.kind) {
      case KernelArgument::Kind::kBuffer: {
        absl::StatusOr<DeviceAddress> address = address_of(argument.memory, argument.offset);
        if (!address.ok()) return Annotate(address.status(), absl::StrCat("argument ", i));
        addresses_[i] = *address;
        pointers_[i] = &addresses_[i];
        break;
      }
      case KernelArgument::Kind::kScalar:
        bytes = argument.scalar.size();
        pointers_[i] = const_cast<char*>(argument.scalar.data());
        break;
      case KernelArgument::Kind::kImage:
      case KernelArgument::Kind::kSampler:
        return MakeError(v1::INVALID_ARGUMENTS,
                         absl::StrCat("argument ", i,
                                      " is an image or a sampler; this family's "
                                      "kernels take none"));
      case KernelArgument::Kind::kLocalMemory:
        return MakeError(v1::INVALID_ARGUMENTS,
                         absl::StrCat("argument ", i,
                                      " is local memory; this family takes dynamic "
                                      "shared memory as dynamic_local_bytes of the launch"));
    }
    if (sizes_known && bytes != sizes[i]) {
      return MakeError(v1::INVALID_ARGUMENTS, absl::StrCat("argument ", i, " has ", bytes,
                                                           " bytes, the kernel takes ", sizes[i]));
    }
  }
  if (!sizes_known) PadUnknown(arguments);
  return absl::OkStatus();
}

void LaunchArguments::PadUnknown(std::span<const KernelArgument> arguments) {
  size_t used = 0;
  absl::InlinedVector<size_t, 16> offsets(count_);
  for (size_t i = 0; i < count_; ++i) {
    offsets[i] = used;
    used += arguments[i].kind == KernelArgument::Kind::kBuffer ? sizeof(DeviceAddress)
                                                               : arguments[i].scalar.size();
  }
  padded_.assign(used + kMaxParameterBytes, '\0');
  for (size_t i = 0; i < count_; ++i) {
    const bool is_buffer = arguments[i].kind == KernelArgument::Kind::kBuffer;
    std::memcpy(padded_.data() + offsets[i], pointers_[i],
                is_buffer ? sizeof(DeviceAddress) : arguments[i].scalar.size());
    pointers_[i] = padded_.data() + offsets[i];
  }
  pointers_.resize(std::max(count_, kMaxParameters), padded_.data() + used);
  pointers_[std::min(count_, pointers_.size() - 1)] = padded_.data() + used;
}

}  // namespace kcache::backend::cudalike
