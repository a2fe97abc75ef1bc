#include "backends/sdk/launch_check.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "contract/error_reason.h"

namespace kcache::backend {
namespace {

constexpr uint32_t kMaxRepeat = 1u << 20;
constexpr char kAxis[] = "xyz";

absl::Status BadLaunch(const v1::KernelInfo& kernel, std::string_view what) {
  return MakeError(v1::INVALID_LAUNCH,
                   absl::StrCat("launch of ", kernel.entry(), ": ", std::string(what)));
}

struct Dims {
  uint32_t at[3];
  bool given() const { return at[0] != 0 || at[1] != 0 || at[2] != 0; }
};

Dims Read(const v1::Dim3& dim) { return {{dim.x(), dim.y(), dim.z()}}; }

// Trailing zeros mean "not used": (16) is (16, 1, 1). Returns how many dimensions were named.
uint32_t FillTrailing(Dims* dims) {
  uint32_t named = 3;
  while (named > 1 && dims->at[named - 1] == 0) dims->at[--named] = 1;
  return named;
}

Extent ToExtent(const Dims& dims) { return {dims.at[0], dims.at[1], dims.at[2]}; }

std::string Kind(const v1::Argument& argument) {
  switch (argument.value_case()) {
    case v1::Argument::kScalar:
      return absl::StrCat("a scalar of ", argument.scalar().size(), " bytes");
    case v1::Argument::kBuffer:
    case v1::Argument::kRange:
      return "a buffer";
    case v1::Argument::kLocalBytes:
      return absl::StrCat(argument.local_bytes(), " bytes of local memory");
    case v1::Argument::kImage:
      return "an image";
    case v1::Argument::kSampler:
      return "a sampler";
    case v1::Argument::VALUE_NOT_SET:
      return "nothing";
  }
  return "something newer";
}

bool IsBuffer(const v1::Argument& argument) {
  return argument.value_case() == v1::Argument::kBuffer ||
         argument.value_case() == v1::Argument::kRange;
}

bool Fits(const v1::Argument& argument, const v1::ArgumentInfo& wanted) {
  switch (wanted.kind()) {
    case v1::ARGUMENT_SCALAR:
      return argument.value_case() == v1::Argument::kScalar &&
             (wanted.bytes() == 0 || argument.scalar().size() == wanted.bytes());
    case v1::ARGUMENT_BUFFER:
      return IsBuffer(argument);
    case v1::ARGUMENT_LOCAL_MEMORY:
      return argument.value_case() == v1::Argument::kLocalBytes && argument.local_bytes() != 0;
    case v1::ARGUMENT_IMAGE:
      return argument.value_case() == v1::Argument::kImage;
    case v1::ARGUMENT_SAMPLER:
      return argument.value_case() == v1::Argument::kSampler;
    default:
      // The driver tells sizes only: an address is 8 bytes, whatever it points to.
      if (IsBuffer(argument)) return wanted.bytes() == 0 || wanted.bytes() == sizeof(uint64_t);
      return argument.value_case() == v1::Argument::kScalar &&
             (wanted.bytes() == 0 || argument.scalar().size() == wanted.bytes());
  }
}

std::string Wanted(const v1::ArgumentInfo& wanted) {
  switch (wanted.kind()) {
    case v1::ARGUMENT_SCALAR:
      return wanted.bytes() == 0 ? "a scalar" : absl::StrCat("a scalar of ", wanted.bytes(), " bytes");
    case v1::ARGUMENT_BUFFER:
      return "a buffer";
    case v1::ARGUMENT_LOCAL_MEMORY:
      return "local memory, more than 0 bytes";
    case v1::ARGUMENT_IMAGE:
      return "an image";
    case v1::ARGUMENT_SAMPLER:
      return "a sampler";
    default:
      return absl::StrCat("a value of ", wanted.bytes(), " bytes");
  }
}

}  // namespace

absl::Status CheckShape(const v1::Launch& launch, const v1::KernelInfo& kernel,
                        const v1::DeviceLimits& limits, LaunchCommand* command) {
  Dims local = Read(launch.local()), grid = Read(launch.grid()), global = Read(launch.global());
  if (grid.given() == global.given()) {
    return BadLaunch(kernel, grid.given() ? "both grid and global are given; give one"
                                          : "the grid is zero");
  }
  const bool has_local = local.given();
  uint32_t dimensions = 1;
  if (has_local) dimensions = FillTrailing(&local);
  if (grid.given()) {
    dimensions = std::max(dimensions, FillTrailing(&grid));
    if (!has_local) return BadLaunch(kernel, "the local size is zero");
    for (int i = 0; i < 3; ++i) {
      const uint64_t total = uint64_t{grid.at[i]} * local.at[i];
      if (total == 0) return BadLaunch(kernel, absl::StrCat("the grid is zero in ", std::string(1, kAxis[i])));
      if (total > UINT32_MAX) {
        return BadLaunch(kernel, absl::StrCat("grid × local is ", total, " in ",
                                              std::string(1, kAxis[i]), "; the limit is ", UINT32_MAX));
      }
      global.at[i] = static_cast<uint32_t>(total);
    }
  } else {
    dimensions = std::max(dimensions, FillTrailing(&global));
    for (int i = 0; i < 3; ++i) {
      if (global.at[i] == 0) {
        return BadLaunch(kernel, absl::StrCat("the global size is zero in ", std::string(1, kAxis[i])));
      }
      if (!has_local) continue;
      if (local.at[i] == 0 || global.at[i] % local.at[i] != 0) {
        return BadLaunch(kernel,
                         absl::StrCat("the global size ", global.at[i], " in ",
                                      std::string(1, kAxis[i]), " is not a multiple of the local size ",
                                      local.at[i]));
      }
      grid.at[i] = global.at[i] / local.at[i];
    }
  }
  const Dims required = Read(kernel.required_local_size());
  if (!has_local && required.given()) {
    local = required;
    FillTrailing(&local);
    for (int i = 0; i < 3; ++i) {
      if (global.at[i] % local.at[i] != 0) {
        return BadLaunch(kernel, absl::StrCat("the global size ", global.at[i], " in ",
                                              std::string(1, kAxis[i]),
                                              " is not a multiple of the required local size ",
                                              local.at[i]));
      }
      grid.at[i] = global.at[i] / local.at[i];
    }
  }
  const bool local_known = has_local || required.given();
  if (local_known) {
    uint64_t product = 1;
    const Dims device = Read(limits.max_local_dims());
    for (int i = 0; i < 3; ++i) {
      if (local.at[i] == 0) {
        return BadLaunch(kernel, absl::StrCat("the local size is zero in ", std::string(1, kAxis[i])));
      }
      if (device.at[i] != 0 && local.at[i] > device.at[i]) {
        return BadLaunch(kernel, absl::StrCat("the local size ", local.at[i], " in ",
                                              std::string(1, kAxis[i]), " is beyond the device's ",
                                              device.at[i]));
      }
      if (required.given() && local.at[i] != std::max(1u, required.at[i])) {
        return BadLaunch(kernel, absl::StrCat("the local size ", local.at[i], " in ",
                                              std::string(1, kAxis[i]), " is not the required ",
                                              std::max(1u, required.at[i])));
      }
      product *= local.at[i];
    }
    const uint64_t most = kernel.max_local_size() != 0 ? kernel.max_local_size()
                                                       : limits.max_local_size();
    if (most != 0 && product > most) {
      return BadLaunch(kernel, absl::StrCat("the local size has ", product,
                                            " work-items; the limit is ", most));
    }
    const uint64_t grid_limits[3] = {limits.max_grid_x(), limits.max_grid_y(), limits.max_grid_z()};
    for (int i = 0; i < 3; ++i) {
      if (grid_limits[i] != 0 && grid.at[i] > grid_limits[i]) {
        return BadLaunch(kernel, absl::StrCat("the grid has ", grid.at[i], " groups in ",
                                              std::string(1, kAxis[i]), "; the device's limit is ",
                                              grid_limits[i]));
      }
    }
  }
  if (launch.repeat() > kMaxRepeat) {
    return BadLaunch(kernel, absl::StrCat("repeat is ", launch.repeat(), "; the limit is ", kMaxRepeat));
  }
  command->grid = local_known ? ToExtent(grid) : Extent{0, 0, 0};
  command->local = local_known ? ToExtent(local) : Extent{0, 0, 0};
  command->driver_picks_local = !local_known;
  command->global = ToExtent(global);
  command->has_global_offset = launch.has_global_offset();
  if (launch.has_global_offset()) command->global_offset = ToExtent(Read(launch.global_offset()));
  command->dynamic_local_bytes = launch.dynamic_local_bytes();
  command->push_constants = launch.push_constants();
  command->repeat = std::max(1u, launch.repeat());
  if (launch.dimensions() > 3) {
    return BadLaunch(kernel, absl::StrCat(launch.dimensions(), " dimensions; the limit is 3"));
  }
  command->dimensions = launch.dimensions() != 0 ? launch.dimensions() : dimensions;
  return absl::OkStatus();
}

absl::Status CheckArguments(const v1::Launch& launch, const v1::KernelInfo& kernel) {
  if (!kernel.arguments_known()) return absl::OkStatus();
  int expected = kernel.arguments_size();
  if (!launch.push_constants().empty()) {
    if (launch.push_constants().size() != kernel.push_constant_bytes()) {
      return MakeError(v1::INVALID_ARGUMENTS,
                       absl::StrCat(kernel.entry(), " takes ", kernel.push_constant_bytes(),
                                    " bytes of push constants, the launch gives ",
                                    launch.push_constants().size()));
    }
    // The block stands for the scalars, which come after all buffers.
    while (expected > 0 && kernel.arguments(expected - 1).kind() == v1::ARGUMENT_SCALAR) --expected;
  }
  if (launch.arguments_size() != expected) {
    return MakeError(v1::INVALID_ARGUMENTS,
                     absl::StrCat(kernel.entry(), " takes ", expected,
                                  " arguments, the launch gives ", launch.arguments_size()));
  }
  for (int i = 0; i < launch.arguments_size(); ++i) {
    const v1::ArgumentInfo& wanted = kernel.arguments(i);
    if (Fits(launch.arguments(i), wanted)) continue;
    return MakeError(v1::INVALID_ARGUMENTS,
                     absl::StrCat("argument ", i,
                                  wanted.name().empty() ? "" : absl::StrCat(" (", wanted.name(), ")"),
                                  " of ", kernel.entry(), " is ", Wanted(wanted),
                                  "; the launch gives ", Kind(launch.arguments(i))));
  }
  return absl::OkStatus();
}

}  // namespace kcache::backend
