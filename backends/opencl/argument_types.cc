#include "backends/opencl/argument_types.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kcache::backend::opencl {
namespace {

// OpenCL C specification, "Built-in Scalar Data Types"; what may not be a kernel argument (bool,
// size_t and its kin) is left out.
constexpr std::array<std::pair<std::string_view, uint64_t>, 24> kScalars{{
    {"char", 1},
    {"signed char", 1},
    {"uchar", 1},
    {"unsigned char", 1},
    {"short", 2},
    {"ushort", 2},
    {"unsigned short", 2},
    {"signed short", 2},
    {"half", 2},
    {"int", 4},
    {"signed int", 4},
    {"signed", 4},
    {"uint", 4},
    {"unsigned int", 4},
    {"unsigned", 4},
    {"float", 4},
    {"long", 8},
    {"signed long", 8},
    {"ulong", 8},
    {"unsigned long", 8},
    {"long long", 8},
    {"ulonglong", 8},
    {"unsigned long long", 8},
    {"double", 8},
}};

}  // namespace

std::optional<uint64_t> BuiltinTypeBytes(std::string_view name) {
  uint64_t lanes = 1;
  const size_t digits = name.find_last_not_of("0123456789") + 1;
  if (digits < name.size()) {
    const std::string_view count = name.substr(digits);
    // "Built-in Vector Data Types": a vector of three takes the space of four.
    constexpr std::array<std::pair<std::string_view, uint64_t>, 5> kLanes{
        {{"2", 2}, {"3", 4}, {"4", 4}, {"8", 8}, {"16", 16}}};
    const auto* lane = std::find_if(kLanes.begin(), kLanes.end(),
                                    [&](const auto& entry) { return entry.first == count; });
    if (lane == kLanes.end()) return std::nullopt;
    lanes = lane->second;
    name = name.substr(0, digits);
    if (name.find(' ') != std::string_view::npos)
      return std::nullopt;  // "unsigned int4" is no type
  }
  const auto* scalar = std::find_if(kScalars.begin(), kScalars.end(),
                                    [&](const auto& entry) { return entry.first == name; });
  if (scalar == kScalars.end()) return std::nullopt;
  return scalar->second * lanes;
}

bool IsImageType(std::string_view name) {
  constexpr std::array<std::string_view, 12> kImages{"image1d_t",
                                                     "image1d_array_t",
                                                     "image1d_buffer_t",
                                                     "image2d_t",
                                                     "image2d_array_t",
                                                     "image2d_depth_t",
                                                     "image2d_msaa_t",
                                                     "image2d_array_msaa_t",
                                                     "image2d_array_depth_t",
                                                     "image2d_msaa_depth_t",
                                                     "image2d_array_msaa_depth_t",
                                                     "image3d_t"};
  return std::find(kImages.begin(), kImages.end(), name) != kImages.end();
}

bool IsSamplerType(std::string_view name) { return name == "sampler_t"; }

}  // namespace kcache::backend::opencl
